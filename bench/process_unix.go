//go:build unix

package main

import (
	"syscall"
	"time"
)

// apart has a child in a process group of its own: what is typed at the terminal does not
// reach it, and if the parent dies, the system wakes and ends it where it is stopped.
func apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func (p *process) pause() { _ = p.command.Process.Signal(syscall.SIGSTOP) }

func (p *process) resume() {
	_ = p.command.Process.Signal(syscall.SIGCONT)
	time.Sleep(afterStop)
}
