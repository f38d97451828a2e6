package attack

import (
	"github.com/batleforc/batlehub-sandbox/wire"
)

// Case is one archive with its right answer.
type Case struct {
	// ID is the spec's id, such as "E07".
	ID string
	// Name says what the archive is, Why what would happen to a reader that
	// took it otherwise.
	Name, Why string
	// Archive makes the archive.
	Archive func() []byte
	// Into is where it is unpacked, "pkg" where it says nothing.
	Into string
	// Nested asks for inner archives.
	Nested []wire.Nested
	// Policy changes the default policy; nil for no change.
	Policy func(*wire.ExtractPolicy)
	// Refused is the rule that refuses the archive; empty when it is taken.
	Refused string
	// Tree is what must stand below Into afterwards, and nothing else: Dir,
	// File(content) or Link(target) by path.
	Tree map[string]Node
	// Notes are the rules of the deviations that must be noted, no others.
	Notes []string
	// Inputs are other files of the bundle.
	Inputs map[string]string
}

// Node is one object of a tree.
type Node struct {
	// Type is "dir", "file" or "symlink".
	Type string
	// Content is a file's content, Target a link's.
	Content []byte
	Target  string
}

// Dir is a directory.
func Dir() Node { return Node{Type: "dir"} }

// File is a file with a content.
func File(content string) Node { return Node{Type: "file", Content: []byte(content)} }

// Link is a symbolic link.
func Link(target string) Node { return Node{Type: "symlink", Target: target} }

// Cases are all cases in the order of their ids.
func Cases() []Case {
	var all []Case
	for _, list := range [][]Case{formatCases(), nameCases(), linkCases(), typeCases(), clashCases(), tarCases(), streamCases(), zipCases(), limitCases(), nestedCases(), readerCases()} {
		all = append(all, list...)
	}
	return all
}
