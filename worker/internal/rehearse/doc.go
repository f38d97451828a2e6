// Package rehearse finds what is wrong with a scanner's configuration before
// there is an artifact: it plans a run of it and looks at what the agent would
// be told.
package rehearse
