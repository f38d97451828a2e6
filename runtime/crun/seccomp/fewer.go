package seccomp

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// flat are the calls whose one looked-at argument is an int, the rest of whose
// register the kernel does not look at either.
var flat = []string{"personality", "socket"}

// fewer states what the profile allows of some calls in fewer rules. It has one
// rule for each value of their first argument, three dozen in all, and those make
// up a quarter of the time in which libseccomp compiles the whole of it, for
// every run again. A comparison under a mask takes many values at once.
func fewer(p *specs.LinuxSeccomp) {
	for _, name := range flat {
		var values []uint32
		var rest []specs.LinuxSyscall
		for _, rule := range p.Syscalls {
			if accepted, ok := accepts(rule, name); ok {
				values = append(values, accepted...)
			} else {
				rest = append(rest, rule)
			}
		}
		for _, m := range masks(values) {
			rest = append(rest, specs.LinuxSyscall{Names: []string{name}, Action: specs.ActAllow, Args: []specs.LinuxSeccompArg{
				{Index: 0, Value: uint64(m.mask), ValueTwo: uint64(m.value), Op: specs.OpMaskedEqual},
			}})
		}
		p.Syscalls = rest
	}
}

// accepts are the values that a rule allows the call with, if it is a rule for
// nothing else. Any other rule is kept as it is.
func accepts(rule specs.LinuxSyscall, name string) ([]uint32, bool) {
	const few = 64
	if rule.Action != specs.ActAllow || !slices.Equal(rule.Names, []string{name}) || len(rule.Args) != 1 || rule.Args[0].Index != 0 {
		return nil, false
	}
	switch arg := rule.Args[0]; {
	case arg.Op == specs.OpEqualTo && arg.Value <= math.MaxUint32:
		return []uint32{uint32(arg.Value)}, true
	case arg.Op == specs.OpLessThan && arg.Value <= few:
		var values []uint32
		for v := range uint32(arg.Value) {
			values = append(values, v)
		}
		return values, true
	}
	return nil, false
}

// masked are the numbers that are value in the bits of mask.
type masked struct{ mask, value uint32 }

func (m masked) has(v uint32) bool { return v&m.mask == m.value }

// masks are some of which one has each of the values, and none has another
// number. They are not the fewest possible, but near to it.
func masks(values []uint32) []masked {
	largest := widest(values)
	var chosen []masked
	for len(values) > 0 {
		best := slices.MaxFunc(largest, func(a, b masked) int { return cmp.Compare(count(a, values), count(b, values)) })
		chosen = append(chosen, best)
		values = slices.DeleteFunc(slices.Clone(values), best.has)
	}
	return chosen
}

func count(m masked, values []uint32) (n int) {
	for _, v := range values {
		if m.has(v) {
			n++
		}
	}
	return n
}

// widest are all masked numbers that have some of the values and nothing else,
// and that no wider ones have. Two that differ in one bit alone are one without
// it (the method of Quine and McCluskey).
func widest(values []uint32) []masked {
	var level, done []masked
	for _, v := range values {
		level = append(level, masked{math.MaxUint32, v})
	}
	for len(level) > 0 {
		slices.SortFunc(level, func(a, b masked) int { return cmp.Or(cmp.Compare(a.mask, b.mask), cmp.Compare(a.value, b.value)) })
		level = slices.Compact(level)
		joined := make([]bool, len(level))
		var next []masked
		for i, a := range level {
			for j, b := range level[i+1:] {
				if bit := a.value ^ b.value; a.mask == b.mask && bits.OnesCount32(bit) == 1 {
					next = append(next, masked{a.mask &^ bit, a.value &^ bit})
					joined[i], joined[i+1+j] = true, true
				}
			}
		}
		for i, m := range level {
			if !joined[i] {
				done = append(done, m)
			}
		}
		level = next
	}
	return done
}
