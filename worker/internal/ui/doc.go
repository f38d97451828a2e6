// Package ui prints for people: text that is safe for a terminal, tables, and
// progress that shows only where somebody watches.
package ui
