package launch

// CloseLifeline closes the lifeline alone, as the kernel does when the
// program that holds it dies.
func (p *Process) CloseLifeline() { p.lifeline.Close() }

// PID is the keeper's.
func (p *Process) PID() int { return p.pid }
