// Package launch starts the scanner behind its own limits, domain and filter.
//
// None of them can be put on a child from outside without holding the parent too,
// so the child puts them on itself before it executes the scanner. A program
// that is pid 1 makes that child itself. Every other program starts its own
// executable again first, as a keeper: it is selected by argv[0] alone, in an
// init function, so that importing this package is what arms it and a program
// that uses the agent as a library needs nothing else.
package launch
