module github.com/wheelcache/wheelcache/proof

go 1.25

replace github.com/wheelcache/wheelcache => ../

require (
	github.com/anishathalye/porcupine v1.3.1
	github.com/jonboulle/clockwork v0.5.0
	github.com/stretchr/testify v1.11.1
	github.com/wheelcache/wheelcache v0.0.0
	go.uber.org/goleak v1.3.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/davecgh/go-spew v1.1.1 // indirect
	github.com/kr/text v0.1.0 // indirect
	github.com/pmezard/go-difflib v1.0.0 // indirect
	gopkg.in/yaml.v3 v3.0.1 // indirect
)
