package ui

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Table writes rows in columns. Every cell is cleaned; the last column is not
// padded, and columns are as wide as their widest cell up to most runes.
func Table(w io.Writer, indent string, rows [][]string) error {
	const most = 60
	var widths []int
	cleaned := make([][]string, len(rows))
	for i, row := range rows {
		for j, cell := range row {
			cell = Clean(cell)
			cleaned[i] = append(cleaned[i], cell)
			if j == len(widths) {
				widths = append(widths, 0)
			}
			widths[j] = max(widths[j], min(utf8.RuneCountInString(cell), most))
		}
	}
	var b strings.Builder
	for _, row := range cleaned {
		line := indent
		for j, cell := range row {
			line += cell
			if j < len(row)-1 {
				line += strings.Repeat(" ", max(0, widths[j]-utf8.RuneCountInString(cell))+2)
			}
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Bytes is a size for people.
func Bytes(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	value, name := float64(n)/unit, "KiB"
	for _, next := range []string{"MiB", "GiB", "TiB"} {
		if value < unit {
			break
		}
		value, name = value/unit, next
	}
	return fmt.Sprintf("%.1f %s", value, name)
}
