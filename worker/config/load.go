package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	gotoml "github.com/pelletier/go-toml/v2"

	"github.com/knadh/koanf/v2"
)

// DefaultFile is read when no file is named and it exists. It is never looked
// for in the working directory: that may be a checkout somebody else wrote, and
// a configuration names programs.
const DefaultFile = "/etc/batlehub-sandbox/config.toml"

// Load reads the files in order, a later one over an earlier one, key by key.
// Without files it reads DefaultFile if that exists, and otherwise returns the
// defaults. Every error is an *Error.
func Load(files ...string) (*Config, error) { return LoadWith(nil, files...) }

// Override is a value that lies over those of all files.
type Override struct {
	// Flag is what messages blame, such as "--runtime".
	Flag string
	// Key is the path of the key, as Key.Path has it.
	Key   string
	Value any
}

// LoadWith is Load with values of the command line over the files.
func LoadWith(overrides []Override, files ...string) (*Config, error) {
	layers, err := readLayers(files)
	if err != nil {
		return nil, err
	}
	for _, o := range overrides {
		l := o.layer()
		if err := l.check(); err != nil {
			return nil, err
		}
		layers = append(layers, l)
	}
	return loadLayers(layers...)
}

func (o Override) layer() *layer {
	l := &layer{file: o.Flag, flag: true, lines: map[string]int{strings.ReplaceAll(o.Key, ".", sep): 1}}
	value := o.Value
	for _, name := range slices.Backward(strings.Split(o.Key, ".")) {
		value = map[string]any{name: value}
	}
	l.values, _ = value.(map[string]any)
	return l
}

func readLayers(files []string) ([]*layer, error) {
	if len(files) == 0 {
		if _, err := os.Stat(DefaultFile); errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		files = []string{DefaultFile}
	}
	var layers []*layer
	for _, file := range files {
		l, err := readLayer(file)
		if err != nil {
			return nil, err
		}
		if err := l.check(); err != nil {
			return nil, err
		}
		layers = append(layers, l)
	}
	return layers, nil
}

func loadLayers(layers ...*layer) (*Config, error) {
	d := &document{k: koanf.New(sep), layers: layers}
	if err := d.k.Load(values(defaults()), nil); err != nil {
		return nil, &Error{Message: fmt.Sprintf("the defaults don't load: %v", err)}
	}
	for _, l := range layers {
		if err := d.k.Load(values(l.values), nil); err != nil {
			return nil, &Error{File: l.file, Message: fmt.Sprintf("the file can't be merged: %v", err)}
		}
	}
	return d.decode()
}

// values is a koanf provider of values that are parsed already.
type values map[string]any

func (v values) Read() (map[string]any, error) { return v, nil }
func (v values) ReadBytes() ([]byte, error)    { return nil, errors.ErrUnsupported }

// defaults builds the values of the table of keys. A scanner's are left to its
// type, and a backend's to its decoding.
func defaults() map[string]any {
	root := map[string]any{}
	for _, k := range keys {
		if strings.Contains(k.Table, "<name>") {
			continue
		}
		table := root
		for name := range strings.SplitSeq(k.Table, ".") {
			inner, is := table[name].(map[string]any)
			if !is {
				inner = map[string]any{}
				table[name] = inner
			}
			table = inner
		}
		table[k.Name] = k.defaultValue()
	}
	return root
}

func (k Key) defaultValue() any {
	var v struct{ X any }
	if err := gotoml.Unmarshal([]byte("X = "+k.Default), &v); err != nil {
		panic(fmt.Sprintf("config: default of %s: %v", k.Path(), err))
	}
	return v.X
}

// document is the merged layers, and where each value came from.
type document struct {
	k      *koanf.Koanf
	layers []*layer
}

// refuse blames the last layer that set path.
func (d *document) refuse(path, format string, args ...any) error {
	file, line := d.origin(path)
	return &Error{File: file, Line: line, Message: fmt.Sprintf(format, args...)}
}

func (d *document) warn(c *Config, path, format string, args ...any) {
	file, line := d.origin(path)
	c.Warnings = append(c.Warnings, Warning{File: file, Line: line, Message: fmt.Sprintf(format, args...)})
}

func (d *document) origin(path string) (string, int) {
	l, line := d.last(path)
	switch {
	case l == nil:
		return "", 0
	case l.flag:
		return l.file, 0
	}
	return l.file, line
}

// last is the last layer that set path, and the line in it.
func (d *document) last(path string) (*layer, int) {
	for _, l := range slices.Backward(d.layers) {
		if line := l.lines[path]; line > 0 {
			return l, line
		}
	}
	return nil, 0
}

// set reports whether any layer has path.
func (d *document) set(path string) bool {
	l, _ := d.last(path)
	return l != nil
}

// flagged reports whether a flag of the command line set path.
func (d *document) flagged(path string) bool {
	l, _ := d.last(path)
	return l != nil && l.flag
}
