// Package gate finds out whether a sandbox's network wall stands, by
// connecting to addresses that must not answer.
package gate
