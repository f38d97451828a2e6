package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"time"
)

// Manifest describes one run to the agent: what to fetch, how to unpack it,
// what to execute and where the result may go. It is the whole of what a
// sandbox is told.
type Manifest struct {
	// Wire is the wire version of whoever wrote the manifest.
	Wire int `json:"wire"`
	// Label says whose run this is.
	Label Label `json:"label"`
	// Entries are the inputs, in the order in which they are laid out.
	Entries []Entry `json:"entries"`
	// Policy bounds what archive entries may unpack to.
	Policy ExtractPolicy `json:"policy"`
	// Argv is the scanner's command and arguments, executed without a shell.
	// It is empty on a probe and nowhere else.
	Argv []string `json:"argv"`
	// Limits bound the scanner's process.
	Limits Limits `json:"limits"`
	// TimeoutMS is how many milliseconds extraction and scanner may take
	// together, counted from the moment the inputs are fetched.
	TimeoutMS int64 `json:"timeout_ms"`
	// FetchMS is how many milliseconds the agent may take to fetch its inputs,
	// counted from the agent's own start; 0 is no bound. A worker sets it where
	// it can't see from outside that a bundle was fetched.
	FetchMS int64 `json:"fetch_ms,omitempty"`
	// Network says whether the run may reach anything.
	Network bool `json:"network"`
	// Canaries are addresses ("ip:port") that must not answer. The agent tries
	// them before it starts the scanner. A run with Network has those that it
	// is kept from all the same, if any.
	Canaries []string `json:"canaries"`
	// Probe makes the run a probe: the walls are asserted in the scanner's place.
	Probe *ProbeRequest `json:"probe,omitempty"`
	// SealKey is the run's random key, under which the result is sealed.
	SealKey SealKey `json:"seal_key"`
	// Results are the presigned URLs that take a result of one exact length,
	// shortest first. Empty means that the agent's --out takes any length.
	Results []ResultURL `json:"results,omitempty"`
}

// ResultURL is a place that takes a result of exactly Size bytes.
type ResultURL struct {
	Size int64  `json:"size"`
	URL  string `json:"url"`
}

// ErrManifest is wrapped by every refusal of a manifest.
var ErrManifest = errors.New("invalid manifest")

// ParseManifest reads a manifest. It refuses more than ManifestCap bytes
// before reading them, unknown and repeated keys, and whatever Validate
// refuses. A manifest of another wire version is refused with a *VersionError
// before anything else in it is looked at.
func ParseManifest(b []byte) (*Manifest, error) {
	if len(b) > ManifestCap {
		return nil, fmt.Errorf("%w: %d bytes, want at most %d", ErrManifest, len(b), ManifestCap)
	}
	if err := checkVersion(b); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrManifest, err)
	}
	m := new(Manifest)
	if err := decodeStrict(b, m); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrManifest, err)
	}
	if err := m.Validate(); err != nil {
		return nil, err
	}
	return m, nil
}

// Head is the part of a manifest that every wire version has: enough to tell
// the writer of a manifest that its version is not spoken here.
type Head struct {
	Wire    int         `json:"wire"`
	SealKey SealKey     `json:"seal_key"`
	Results []ResultURL `json:"results"`
}

// ParseHead reads the head of a manifest of any wire version.
func ParseHead(b []byte) (*Head, error) {
	if len(b) > ManifestCap {
		return nil, fmt.Errorf("%w: %d bytes, want at most %d", ErrManifest, len(b), ManifestCap)
	}
	if err := checkShape(b); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrManifest, err)
	}
	h := new(Head)
	if err := json.Unmarshal(b, h); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrManifest, err)
	}
	return h, nil
}

// Encode validates m and writes it as JSON.
func (m *Manifest) Encode() ([]byte, error) {
	if err := m.Validate(); err != nil {
		return nil, err
	}
	b, err := json.Marshal(m.withLists())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrManifest, err)
	}
	if len(b) > ManifestCap {
		return nil, fmt.Errorf("%w: %d bytes, want at most %d", ErrManifest, len(b), ManifestCap)
	}
	return b, nil
}

// withLists returns m with every absent list as an empty one, since a null is
// refused by the reader.
func (m *Manifest) withLists() *Manifest {
	c := *m
	c.Entries, c.Argv, c.Canaries = list(m.Entries), list(m.Argv), list(m.Canaries)
	if m.Probe != nil {
		probe := *m.Probe
		probe.Commands = list(probe.Commands)
		c.Probe = &probe
	}
	return &c
}

func list[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

// Validate reports the first thing in m that no agent could or should follow.
func (m *Manifest) Validate() error {
	if m.Wire != Version {
		return fmt.Errorf("%w: %w", ErrManifest, &VersionError{Got: m.Wire})
	}
	for _, check := range []func() error{
		m.Label.Validate, m.Policy.Validate, m.Limits.Validate,
		m.validateCommand, m.validateTime, m.validateEntries, m.validateCanaries, m.validateResults,
	} {
		if err := check(); err != nil {
			return fmt.Errorf("%w: %w", ErrManifest, err)
		}
	}
	return nil
}

// Timeout is TimeoutMS as a duration.
func (m *Manifest) Timeout() time.Duration { return time.Duration(m.TimeoutMS) * time.Millisecond }

// FetchTimeout is FetchMS as a duration.
func (m *Manifest) FetchTimeout() time.Duration { return time.Duration(m.FetchMS) * time.Millisecond }

func (m *Manifest) validateCommand() error {
	if m.Probe != nil {
		if len(m.Argv) != 0 {
			return errors.New("argv is set on a probe")
		}
		if m.Network {
			return errors.New("network is on for a probe")
		}
		return m.Probe.validate()
	}
	return validateArgv(m.Argv)
}

func validateArgv(argv []string) error {
	switch {
	case len(argv) == 0 || argv[0] == "":
		return errors.New("argv is empty")
	case len(argv) > ArgvCountCap:
		return fmt.Errorf("argv has %d arguments, want at most %d", len(argv), ArgvCountCap)
	}
	total := 0
	for i, arg := range argv {
		if indexNUL(arg) {
			return fmt.Errorf("argv[%d] has a NUL byte", i)
		}
		total += len(arg)
	}
	if total > ArgvBytesCap {
		return fmt.Errorf("argv has %d bytes, want at most %d", total, ArgvBytesCap)
	}
	return nil
}

func (m *Manifest) validateTime() error {
	const day = 24 * 60 * 60 * 1000
	if m.TimeoutMS < 1 || m.TimeoutMS > day {
		return fmt.Errorf("timeout_ms is %d, want 1 to %d", m.TimeoutMS, day)
	}
	if m.FetchMS < 0 || m.FetchMS > day {
		return fmt.Errorf("fetch_ms is %d, want 0 to %d", m.FetchMS, day)
	}
	return nil
}

func (m *Manifest) validateCanaries() error {
	if len(m.Canaries) > CanaryCountCap {
		return fmt.Errorf("%d canaries, want at most %d", len(m.Canaries), CanaryCountCap)
	}
	for _, c := range m.Canaries {
		if _, err := ParseCanary(c); err != nil {
			return err
		}
	}
	return nil
}

// ParseCanary reads a canary's address. A name is refused, because resolving
// one would need the network that the canary is there to miss, and so are
// loopback and unspecified addresses: inside a sandbox they are its own, and
// the check would pass for nothing.
func ParseCanary(s string) (netip.AddrPort, error) {
	ap, err := netip.ParseAddrPort(s)
	switch {
	case err != nil:
		return ap, fmt.Errorf("canary %.64q is not an ip:port address", s)
	case ap.Port() == 0:
		return ap, fmt.Errorf("canary %.64q has port 0", s)
	case ap.Addr().Unmap().IsLoopback() || ap.Addr().IsUnspecified() || ap.Addr().Zone() != "":
		return ap, fmt.Errorf("canary %.64q is not an address that a sandbox could route to", s)
	}
	return ap, nil
}

func (m *Manifest) validateResults() error {
	if len(m.Results) > 8 {
		return fmt.Errorf("%d results, want at most 8", len(m.Results))
	}
	last := int64(0)
	for i, r := range m.Results {
		if r.Size <= last || r.Size > ResultTarCap {
			return fmt.Errorf("results[%d].size is %d, want rising sizes up to %d", i, r.Size, ResultTarCap)
		}
		if err := validateURL(r.URL); err != nil {
			return fmt.Errorf("results[%d].url: %w", i, err)
		}
		last = r.Size
	}
	return nil
}

func indexNUL(s string) bool {
	for i := range len(s) {
		if s[i] == 0 {
			return true
		}
	}
	return false
}
