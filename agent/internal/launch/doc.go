// Package launch starts the scanner behind its own limits and filter.
//
// Neither can be put on a child from outside without holding the parent too,
// so the agent starts its own executable again as a short stage that sets
// both and then becomes the scanner. The stage is selected by argv[0] alone,
// in an init function: importing this package is what arms it, so a program
// that uses the agent as a library needs nothing else.
package launch
