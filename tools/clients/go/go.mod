// The module around the generated Go client: it pins what that client needs.
module example.com/parley

go 1.26.9

require github.com/oapi-codegen/runtime v1.8.0

require (
	github.com/apapsch/go-jsonmerge/v2 v2.0.0 // indirect
	github.com/google/uuid v1.6.0 // indirect
)
