// Package doctor says what this host can do for each runtime, and for what it
// can't the narrowest fix first. It looks, and makes one sandbox around
// nothing; it changes nothing.
package doctor
