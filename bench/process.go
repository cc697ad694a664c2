package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// A process is a child as its parent sees it. Between its turns it is stopped,
// where the system can do that, so that its janitors do not disturb the others.
type process struct {
	peer    *Peer
	command *exec.Cmd
	ask     *json.Encoder
	in      io.Closer
	answers chan answer // closed when the child is gone
}

// patience is how long a request may take.
const patience = 5 * time.Minute

// afterStop is how long a child gets to come to itself when it goes on: timers that
// have fallen due fire at once.
const afterStop = 20 * time.Millisecond

func start(peer *Peer) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	command := exec.Command(self, "-child", peer.Name)
	command.SysProcAttr = apart()
	command.Stderr = os.Stderr
	in, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	p := &process{peer, command, json.NewEncoder(in), in, make(chan answer)}
	go func() {
		defer close(p.answers)
		for d := json.NewDecoder(out); ; {
			var a answer
			if d.Decode(&a) != nil {
				return
			}
			p.answers <- a
		}
	}()
	return p, nil
}

// do sends a request and waits for the answer.
func (p *process) do(q request) (Result, error) {
	if err := p.ask.Encode(q); err != nil {
		return Result{}, fmt.Errorf("%s: its process has ended", p.peer.Name)
	}
	select {
	case a, ok := <-p.answers:
		switch {
		case !ok:
			return Result{}, fmt.Errorf("%s: its process has ended", p.peer.Name)
		case a.Cannot:
			return a.Result, cannot(a.Error)
		case a.Error != "":
			return a.Result, errors.New(a.Error)
		}
		return a.Result, nil
	case <-time.After(patience):
		_ = p.command.Process.Kill()
		return Result{}, fmt.Errorf("%s: no answer in %v", p.peer.Name, patience)
	}
}

// cannot is an error from a child that says so already.
type cannot string

func (c cannot) Error() string   { return string(c) }
func (c cannot) Is(e error) bool { return e == ErrCannot }

// end makes the child go away.
func (p *process) end() {
	p.resume()
	_ = p.in.Close()
	_ = p.command.Process.Kill()
	for range p.answers { // until it is gone
	}
	_ = p.command.Wait()
}
