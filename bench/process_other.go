//go:build !unix

package main

import "syscall"

func apart() *syscall.SysProcAttr { return nil }
func (p *process) pause()         {}
func (p *process) resume()        {}
