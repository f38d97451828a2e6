// Package ui prints for people: tables, escaped text, and progress on a terminal.
package ui
