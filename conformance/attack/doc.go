// Package attack generates the suite's attack archives, each with its one
// right answer: refused by a rule, or extracted to exactly one tree with the
// deviations noted. Nothing is downloaded and nothing is kept as a blob that
// code could make.
//
// The rules' names are the specification's. They are written out here, and not
// taken from an extractor, so that a renamed rule is seen.
package attack
