module github.com/batleforc/batlehub-sandbox/worker

go 1.26.5

require github.com/batleforc/batlehub-sandbox/wire v0.0.0

replace github.com/batleforc/batlehub-sandbox/wire => ../wire

replace github.com/batleforc/batlehub-sandbox/agent => ../agent

require (
	github.com/knadh/koanf/parsers/toml/v2 v2.1.0
	github.com/knadh/koanf/v2 v2.4.1
	github.com/pelletier/go-toml/v2 v2.4.3
)

require (
	github.com/go-viper/mapstructure/v2 v2.4.0 // indirect
	github.com/knadh/koanf/maps v0.1.2 // indirect
	github.com/mitchellh/copystructure v1.2.0 // indirect
	github.com/mitchellh/reflectwalk v1.0.2 // indirect
)

replace github.com/batleforc/batlehub-sandbox/runtime => ../runtime
