// Package beside is how the programs that stand in for another one are told
// what to change: argv is that other program's, so they read a file of their own.
package beside

import (
	"encoding/json"
	"os"
)

// Config decodes the JSON file that stands beside the running program, under
// its name and ".json".
func Config(into any) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	b, err := os.ReadFile(self + ".json")
	if err != nil {
		return err
	}
	return json.Unmarshal(b, into)
}
