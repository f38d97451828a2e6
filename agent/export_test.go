package agent

import "github.com/batleforc/batlehub-sandbox/wire"

// WithSteps returns options that tell f each step of the run as it begins.
func WithSteps(o Options, f func(string)) Options {
	o.step = f
	return o
}

// Rehearse has a store without places rehearse r.
func Rehearse(r *wire.Result) { store{}.rehearse(r) }
