//go:build !unix

package main

func (p *process) pause()  {}
func (p *process) resume() {}
