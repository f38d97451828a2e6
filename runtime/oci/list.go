package oci

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// row is one container or network as an engine lists it: podman's names are
// these or in lower case, docker's labels and times are text.
type row struct {
	ID, Id    string //nolint:revive // podman's spelling
	Name      string
	Names     stringOrList
	Labels    labelMap
	CreatedAt string
	Created   instant
}

func (r row) labelled() labelled {
	l := labelled{id: r.ID + r.Id, name: r.Name + string(r.Names), worker: r.Labels[LabelWorker], created: time.Time(r.Created)}
	if l.created.IsZero() {
		l.created = parseCreated(r.CreatedAt)
	}
	l.deadline = l.created
	if seconds, err := strconv.ParseInt(r.Labels[LabelDeadline], 10, 64); err == nil {
		l.deadline = time.Unix(seconds, 0)
	}
	return l
}

func (r *Runtime) listContainers(ctx context.Context, h *host) ([]labelled, error) {
	return r.list(ctx, h, "ps", "-a", "--no-trunc")
}

func (r *Runtime) listNetworks(ctx context.Context, h *host) ([]labelled, error) {
	return r.list(ctx, h, "network", "ls", "--no-trunc")
}

// list returns what is labelled as a worker's.
func (r *Runtime) list(ctx context.Context, h *host, args ...string) ([]labelled, error) {
	format := "json"
	if r.config.Engine == Docker {
		format = "{{json .}}"
	}
	args = append(args, "--filter", "label="+LabelWorker, "--format", format)
	exit, err := r.engine.call(ctx, h.path, args...)
	if err := r.callError(exit, err, args); err != nil {
		return nil, err
	}
	rows, err := parseRows(exit.Stdout)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", r.config.Engine, args[0], err)
	}
	list := make([]labelled, 0, len(rows))
	for _, row := range rows {
		list = append(list, row.labelled())
	}
	return list, nil
}

// parseRows reads podman's array or docker's one object a line.
func parseRows(s string) ([]row, error) {
	var rows []row
	if s = strings.TrimSpace(s); strings.HasPrefix(s, "[") {
		err := json.Unmarshal([]byte(s), &rows)
		return rows, err
	}
	for d := json.NewDecoder(strings.NewReader(s)); d.More(); {
		var one row
		if err := d.Decode(&one); err != nil {
			return nil, err
		}
		rows = append(rows, one)
	}
	return rows, nil
}

// parseCreated reads docker's "2026-11-30 00:34:01.5 +0000 UTC".
func parseCreated(s string) time.Time {
	parts := strings.Fields(s)
	if len(parts) < 3 {
		return time.Time{}
	}
	t, _ := time.Parse("2006-01-02 15:04:05 -0700", strings.Join(parts[:3], " "))
	return t
}

// stringOrList is a name, or the first of a list of them.
type stringOrList string

// UnmarshalJSON implements json.Unmarshaler.
func (s *stringOrList) UnmarshalJSON(b []byte) error {
	var list []string
	if json.Unmarshal(b, &list) == nil {
		if len(list) > 0 {
			*s = stringOrList(list[0])
		}
		return nil
	}
	return json.Unmarshal(b, (*string)(s))
}

// labelMap is an object, or "name=value" pairs with commas between.
type labelMap map[string]string

// UnmarshalJSON implements json.Unmarshaler.
func (l *labelMap) UnmarshalJSON(b []byte) error {
	var text string
	if json.Unmarshal(b, &text) != nil {
		return json.Unmarshal(b, (*map[string]string)(l))
	}
	*l = make(labelMap)
	for pair := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(pair, "=")
		(*l)[name] = value
	}
	return nil
}

// instant is seconds since 1970, or RFC 3339.
type instant time.Time

// UnmarshalJSON implements json.Unmarshaler.
func (i *instant) UnmarshalJSON(b []byte) error {
	var seconds int64
	if json.Unmarshal(b, &seconds) == nil {
		*i = instant(time.Unix(seconds, 0))
		return nil
	}
	return (*time.Time)(i).UnmarshalJSON(b)
}
