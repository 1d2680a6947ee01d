package main

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSimulator_BadCallbackURL_Fails(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"localhost:8080", "/provider/callbacks", "ftp://localhost/"} {
		err := run(t.Context(), []string{"simulator", "--addr", "127.0.0.1:0", "--callback-url", address}, nil, io.Discard, io.Discard)
		require.ErrorContains(t, err, "--callback-url must be an absolute URL", address)
	}
}
