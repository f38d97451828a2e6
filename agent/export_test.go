package agent

// WithSteps returns options that tell f each step of the run as it begins.
func WithSteps(o Options, f func(string)) Options {
	o.step = f
	return o
}
