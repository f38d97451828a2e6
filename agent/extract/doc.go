// Package extract unpacks hostile archives. It is the only place in the
// project that opens one.
package extract
