// Package report is what the suite hands over: the report as data with its
// JSON schema, and the same as JUnit, Markdown, a badge and one HTML page.
package report
