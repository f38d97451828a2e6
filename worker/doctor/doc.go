// Package doctor says what this host can do for each runtime, and the narrowest fix for
// what it cannot.
package doctor
