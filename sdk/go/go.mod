module github.com/parley-chat/parley/sdk/go

go 1.24
