package seccomp

// A Rule refuses some calls, always or under a condition on one argument.
type Rule struct {
	// Group gathers rules of one purpose; see Groups.
	Group Group
	// Calls are the names of the calls, as in x/sys without SYS_, in lower
	// case. A call that an architecture doesn't have is skipped there.
	Calls []string
	// When restricts the rule; nil refuses the calls whatever their arguments.
	When *Condition
	// Answer is what the caller gets instead of the call.
	Answer Answer
	// Why says what the call is good for in an attacker's hands.
	Why string
	// Link is where to read more, if there is one place.
	Link string
}

// A Condition looks at the low 32 bits of one argument and at nothing else.
// The kernel takes these arguments as an int and drops the high half, so a
// filter that compared 64 bits could be passed with one stray high bit
// (CVE-2019-7303, CVE-2019-10063).
type Condition struct {
	// Arg is the argument's position, from 0.
	Arg uint
	// Test is how the argument is compared.
	Test Test
	// Values are what it is compared with, in Test's sense.
	Values []Value
}

// Value is an argument's value with the name that the kernel's headers give it.
type Value struct {
	Name  string
	Value uint32
}

// Test is a way to compare an argument.
type Test int

// The tests.
const (
	// AnyOf: equal to one of the values.
	AnyOf Test = iota
	// NoneOf: equal to none of the values.
	NoneOf
	// AnyBit: at least one bit in common with one of the values.
	AnyBit
)

// Holds reports whether the condition is met for an argument.
func (c *Condition) Holds(arg uint64) bool {
	low := uint32(arg)
	for _, v := range c.Values {
		switch {
		case c.Test == AnyBit && low&v.Value != 0, c.Test == AnyOf && low == v.Value:
			return true
		case c.Test == NoneOf && low == v.Value:
			return false
		}
	}
	return c.Test == NoneOf
}

// Answer is an errno.
type Answer uint16

// The answers of the filter. The numbers are the same on every architecture
// that has one.
const (
	// EPERM is the answer to what a scanner has no business with.
	EPERM Answer = 1
	// ENOSYS is the answer where programs are known to fall back on it: the
	// call, the ABI or the number does not exist here.
	ENOSYS Answer = 38
)

// String is the errno's name.
func (a Answer) String() string {
	if a == ENOSYS {
		return "ENOSYS"
	}
	return "EPERM"
}

// Group is a purpose that several rules share.
type Group struct {
	// Name is a few words, About a sentence or two.
	Name, About string
}

// An Arch is an architecture that has a filter.
type Arch struct {
	// Name is its GOARCH.
	Name string
	// Audit is its AUDIT_ARCH value, which seccomp_data.arch holds.
	Audit uint32
	// Numbers has the number of every call that it has, by name.
	Numbers map[string]uint32
}

// Arches returns the architectures that have a filter.
func Arches() []Arch {
	return []Arch{
		{Name: "amd64", Audit: 0xC000003E, Numbers: numbersAMD64()},
		{Name: "arm64", Audit: 0xC00000B7, Numbers: numbersARM64()},
	}
}

// Top returns the highest number that any call had when the numbers were
// taken. Whatever is above answers ENOSYS.
func (a Arch) Top() uint32 {
	var top uint32
	for _, n := range a.Numbers {
		top = max(top, n)
	}
	return top
}
