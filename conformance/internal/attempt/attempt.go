// Package attempt is what the hostile program prints and the suite reads: one
// JSON line per attempt. It stands alone so that the program stays small and
// static, and so that both sides can't disagree.
package attempt

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Report is what one attempt came to, as the attacker saw it.
type Report struct {
	// Verb is the attempt's name.
	Verb string `json:"verb"`
	// Achieved says that the attacker got what it came for.
	Achieved bool `json:"achieved"`
	// Errno is the error of the deciding call, such as "EPERM"; empty on success.
	Errno string `json:"errno,omitempty"`
	// Detail says what was got or what stood in the way.
	Detail string `json:"detail,omitempty"`
	// Calls has one entry per call, of verbs that try several.
	Calls []Call `json:"calls,omitempty"`
	// Values are what an inventory found, by name.
	Values map[string][]string `json:"values,omitempty"`
	// Nodes is what a listing found.
	Nodes []Node `json:"nodes,omitempty"`
	// From and Until say when the attempt ran, in nanoseconds of the boot
	// clock, which all processes of one kernel share.
	From  int64 `json:"from"`
	Until int64 `json:"until"`
}

// Call is one call of a verb that tries several.
type Call struct {
	Name  string `json:"name"`
	Errno string `json:"errno"`
}

// Node is one file system object.
type Node struct {
	Path   string `json:"path"`
	Type   string `json:"type"` // "file", "dir", "symlink" or another word
	Mode   uint32 `json:"mode"` // permission bits with set-id and sticky, as st_mode has them
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256,omitempty"`
	Target string `json:"target,omitempty"`
	// Links is how many names the file has.
	Links uint64 `json:"links,omitempty"`
}

// Parse reads the last line of a run's stdout that is a report.
func Parse(stdout []byte) (Report, error) {
	lines := bytes.Split(bytes.TrimSpace(stdout), []byte("\n"))
	var r Report
	last := lines[len(lines)-1]
	if err := json.Unmarshal(last, &r); err != nil || r.Verb == "" {
		return r, fmt.Errorf("the hostile program's last line is no report: %.200q", last)
	}
	return r, nil
}
