package seccomp_test

import (
	"testing"

	"github.com/batleforc/batlehub-sandbox/agent/seccomp"
)

// The comparison with the table is only worth something if it sees a wrong
// program, so every instruction is made wrong once.
func TestAProgramWithAnyInstructionChangedIsTold(t *testing.T) {
	rules := seccomp.Rules()
	for _, arch := range seccomp.Arches() {
		cases := everyCase(arch, rules)
		want := make([]uint32, len(cases))
		for i, d := range cases {
			want[i] = expected(arch, rules, d)
		}
		program := committed(t, arch.Name)
		for pc := range program {
			for _, m := range mutants(program[pc]) {
				if redundant(program, pc) {
					continue
				}
				changed := append([]instruction(nil), program...)
				changed[pc] = m
				if !told(changed, cases, want) {
					t.Errorf("%s: instruction %d made %+v of %+v and no case saw it", arch.Name, pc, m, program[pc])
				}
			}
		}
	}
}

func mutants(i instruction) []instruction {
	switch i.op {
	case 0x06:
		return []instruction{{op: 0x06, k: i.k ^ 0x7fff0000 | 1}}
	case 0x15, 0x25, 0x35:
		return []instruction{{op: i.op, jt: i.jf, jf: i.jt, k: i.k}, {op: i.op, jt: i.jt, jf: i.jf, k: i.k + 1}}
	case 0x20:
		return []instruction{{op: 0x20, k: (i.k + 8) % 64}}
	}
	return nil
}

// redundant are the instructions that can't change an answer: libseccomp's own
// prologue, which ours has already decided (its look at the architecture and
// at x32, and the last two returns), and the loads of a high half that the next
// instruction masks away.
func redundant(program []instruction, pc int) bool {
	body := 0
	for i := 1; i < len(program); i++ {
		if program[i].op == 0x20 && program[i].k == 4 {
			body = i
		}
	}
	last := pc == len(program)-1 || pc == len(program)-2
	masked := pc+1 < len(program) && program[pc+1] == instruction{op: 0x54}
	return pc >= body && pc < body+5 || last || masked
}

func everyCase(arch seccomp.Arch, rules []seccomp.Rule) []data {
	var cases []data
	for _, n := range allNumbers() {
		cases = append(cases, data{number: n, arch: arch.Audit})
	}
	for _, audit := range foreign {
		cases = append(cases, data{number: arch.Numbers["read"], arch: audit}, data{number: arch.Numbers["getpid"], arch: audit})
	}
	for _, r := range rules {
		if r.When == nil {
			continue
		}
		for _, name := range r.Calls {
			for _, value := range arguments(rules) {
				args := [6]uint64{7, 7, 7, 7, 7, 7}
				args[r.When.Arg] = value
				cases = append(cases, data{number: arch.Numbers[name], arch: arch.Audit, args: args})
			}
		}
	}
	return cases
}

func told(program []instruction, cases []data, want []uint32) bool {
	for i, d := range cases {
		if got, err := interpret(program, d); err != nil || got != want[i] {
			return true
		}
	}
	return false
}
