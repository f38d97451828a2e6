package config

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// check refuses the first key of a layer that is unknown, of the wrong type or
// out of range. Keys are looked at in the order of their lines.
func (l *layer) check() error { return l.checkTable("", "", l.values) }

// checkTable checks the values of one table; path is where it is in the file,
// table its name in the table of keys.
func (l *layer) checkTable(path, table string, values map[string]any) error {
	names := slices.SortedFunc(maps.Keys(values), func(a, b string) int {
		if d := l.lines[join(path, a)] - l.lines[join(path, b)]; d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	for _, name := range names {
		if err := l.checkValue(join(path, name), table, name, values[name]); err != nil {
			return err
		}
	}
	return nil
}

func (l *layer) checkValue(path, table, name string, value any) error {
	if table == "" && slices.Contains(foreign, name) {
		return nil
	}
	if inner, is := innerTable(table, name); is {
		values, is := value.(map[string]any)
		if !is {
			return l.refuse(path, "%s is %s, want a table", dotted(path), describe(value))
		}
		return l.checkTable(path, inner, values)
	}
	switch table {
	case "scanners":
		return l.checkScanner(path, name, value)
	case tableBackends:
		return l.checkBackend(path, name, value)
	}
	key, known := index[strings.TrimPrefix(table+"."+name, ".")]
	if !known {
		return l.unknown(path, table, name)
	}
	if key.Type == LayoutValue {
		return l.checkLayout(path, value)
	}
	return l.checkType(path, key, value)
}

func innerTable(table, name string) (string, bool) {
	inner := strings.TrimPrefix(table+"."+name, ".")
	switch inner {
	case tableWorker, tableSandbox, tableBwrap, tableOCI, tableKubernetes, tableCrun, "scanners", tableStorage, tableBackends:
		return inner, true
	}
	return "", false
}

func (l *layer) checkScanner(path, name string, value any) error {
	values, is := value.(map[string]any)
	if !is {
		return l.refuse(path, "%s is %s, want a table [scanners.<name>] with at least a command", dotted(path), describe(value))
	}
	if !validScannerName(name) {
		return l.refuse(path, "scanner name %.64q, want 1 to 63 of a-z 0-9 - _ . between letters or digits: it names the room too", name)
	}
	return l.checkTable(path, tableScanner, values)
}

func (l *layer) checkLayout(path string, value any) error {
	switch v := value.(type) {
	case string:
		return nil
	case map[string]any:
		return l.checkTable(path, tableLayout, v)
	}
	return l.refuse(path, "%s is %s, want %q, %q, %q or a table", dotted(path), describe(value), "archive", "file", "none")
}

func (l *layer) checkType(path string, key Key, value any) error {
	fits := false
	switch key.Type {
	case String, SecretString:
		_, fits = value.(string)
	case Boolean:
		_, fits = value.(bool)
	case Table:
		_, fits = value.(map[string]any)
	case Strings:
		fits = allOf[string](value)
	case Tables:
		fits = allOf[map[string]any](value)
	case Duration:
		_, err := parseDuration(value)
		if err != nil {
			return l.refuse(path, "%s: %v", dotted(path), err)
		}
		fits = true
	case Integer:
		n, is := value.(int64)
		if is && (n < key.Min || key.Max > 0 && n > key.Max) {
			return l.refuse(path, "%s is %d, want %s", dotted(path), n, bounds(key))
		}
		fits = is
	}
	switch {
	case !fits && key.Type == SecretString:
		return l.refuse(path, "%s is no string, want one", dotted(path))
	case !fits:
		return l.refuse(path, "%s is %s, want %s", dotted(path), describe(value), article(string(key.Type)))
	}
	return nil
}

// CheckInteger refuses a number that the key of that path (as Key.Path has it)
// would refuse, for flags that stand in for one.
func CheckInteger(path string, n int64) error {
	key := index[path]
	if n < key.Min || key.Max > 0 && n > key.Max {
		return fmt.Errorf("is %d, want %s", n, bounds(key))
	}
	if n == 0 && key.Min < 0 {
		return fmt.Errorf("is 0, want at least 1, or %d for no limit", key.Min)
	}
	return nil
}

func bounds(key Key) string {
	if key.Max == 0 {
		return fmt.Sprintf("at least %d", key.Min)
	}
	within := fmt.Sprintf("%d to %d", key.Min, key.Max)
	if reason := reasons[key.Path()]; reason != "" {
		return within + ": " + reason
	}
	return within
}

func (l *layer) unknown(path, table, name string) error {
	where := "at the top of the file"
	if table != "" {
		where = "in [" + dotted(path[:strings.LastIndex(path, sep)]) + "]"
	}
	if near := Nearest(name, tables[table]); near != "" {
		return l.refuse(path, "unknown key %q %s; did you mean %q?", name, where, near)
	}
	return l.refuse(path, "unknown key %q %s; known here: %s", name, where, strings.Join(known(table), ", "))
}

// known are the names in a table that are this program's own.
func known(table string) []string {
	if table == "" {
		return []string{"worker", "scanners", "storage"}
	}
	return tables[table]
}

func (l *layer) refuse(path, format string, args ...any) error {
	return &Error{File: l.file, Line: l.line(path), Message: fmt.Sprintf(format, args...)}
}

// line is the line of path, or of the nearest table around it.
func (l *layer) line(path string) int {
	for {
		if n := l.lines[path]; n > 0 {
			return n
		}
		i := strings.LastIndex(path, sep)
		if i < 0 {
			return 0
		}
		path = path[:i]
	}
}

// parseDuration reads "90s", "5m", or a whole number of seconds.
func parseDuration(value any) (time.Duration, error) {
	var d time.Duration
	switch v := value.(type) {
	case int64:
		if v < 1 || v > day {
			return 0, fmt.Errorf("%d seconds, want 1 to %d", v, day)
		}
		return time.Duration(v) * time.Second, nil
	case string:
		parsed, err := time.ParseDuration(v)
		if err != nil {
			return 0, fmt.Errorf("%.32q is not a duration, want one like \"90s\" or \"5m\"", v)
		}
		d = parsed
	default:
		return 0, fmt.Errorf("%s, want a duration like \"90s\" or \"5m\", or a number of seconds", describe(value))
	}
	if d < time.Millisecond || d > day*time.Second {
		return 0, fmt.Errorf("%s, want one between 1ms and 24h", d)
	}
	return d, nil
}

func allOf[T any](value any) bool {
	list, is := value.([]any)
	for _, v := range list {
		_, fits := v.(T)
		is = is && fits
	}
	return is
}

// describe names a value's TOML type, and its value where it is short.
func describe(value any) string {
	switch v := value.(type) {
	case string:
		return fmt.Sprintf("the string %.40q", v)
	case bool:
		return strconv.FormatBool(v)
	case int64:
		return fmt.Sprintf("the number %d", v)
	case float64:
		if math.Trunc(v) == v {
			return fmt.Sprintf("the float %.1f", v)
		}
		return fmt.Sprintf("the float %g", v)
	case []any:
		return "an array"
	case map[string]any:
		return "a table"
	}
	return "a date"
}

func article(what string) string {
	if strings.ContainsRune("aeiou", rune(what[0])) {
		return "an " + what
	}
	return "a " + what
}

func dotted(path string) string { return strings.ReplaceAll(path, sep, ".") }

func validScannerName(s string) bool {
	if s == "" || len(s) > 63 || strings.Trim(s, "-_.") != s {
		return false
	}
	return !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '_' && r != '.'
	})
}
