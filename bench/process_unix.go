//go:build unix

package main

import (
	"syscall"
	"time"
)

func (p *process) pause() { _ = p.command.Process.Signal(syscall.SIGSTOP) }

func (p *process) resume() {
	_ = p.command.Process.Signal(syscall.SIGCONT)
	time.Sleep(afterStop)
}
