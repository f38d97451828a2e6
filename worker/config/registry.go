package config

// The registry writes [storage] in two ways of its own: one backend, its keys
// in the table itself, or [[storage.backends]] with a name each. Both are read
// as if they had been written as [storage.backends.<name>]. Keys that are the
// registry's alone are let through, as its other tables are.

// registryKeys are the registry's names of keys, and ours.
var registryKeys = map[string]string{
	"type": "type", "path": "path", "bucket": "bucket", "region": "region",
	"endpoint_url": "endpoint", "force_path_style": "path_style",
}

// onlyBackend is the name of a backend that the registry gave none.
const onlyBackend = "default"

// normalize turns the registry's ways of writing [storage] into this one's.
func (l *layer) normalize() {
	storage, is := l.values["storage"].(map[string]any)
	if !is {
		return
	}
	l.registrys = map[string]bool{}
	if list, is := storage["backends"].([]any); is {
		backends := map[string]any{}
		for i, entry := range list {
			table, _ := entry.(map[string]any)
			if name, is := table["name"].(string); is && validBackendName(name) {
				backends[name] = l.adopt(name, elementPath("storage"+sep+"backends", i), table)
			}
		}
		storage["backends"] = backends
		return
	}
	if _, single := storage["type"].(string); single && storage["backends"] == nil {
		own := l.adopt(onlyBackend, "storage", storage)
		l.values["storage"] = map[string]any{"default": onlyBackend, "backends": map[string]any{onlyBackend: own}}
		l.lines["storage"+sep+"default"] = l.lines["storage"]
	}
}

// adopt takes what is known here of a backend of the registry's.
func (l *layer) adopt(name, from string, table map[string]any) map[string]any {
	to := "storage" + sep + "backends" + sep + name
	l.registrys[name], l.lines[to] = true, l.lines[from]
	own := map[string]any{}
	for theirs, ours := range registryKeys {
		if value, set := table[theirs]; set {
			own[ours] = value
			l.lines[to+sep+ours] = l.lines[from+sep+theirs]
		}
	}
	for _, key := range tables[tableBackend] {
		if value, set := table[key]; set {
			own[key] = value
			l.lines[to+sep+key] = l.lines[from+sep+key]
		}
	}
	return own
}
