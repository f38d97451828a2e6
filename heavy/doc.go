// Package heavy holds the whole-system tests: real packages against reference
// extractors, runs by the thousand, and the benchmarks of cmd/bench.
package heavy
