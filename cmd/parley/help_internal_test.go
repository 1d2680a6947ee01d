package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHelp_NamesPlansPortsAndFiles(t *testing.T) {
	t.Parallel()
	for words, command := range map[string][]string{
		"--plan string            free (no API), starter, growth or platform":  {"admin", "org", "create"},
		"--plan string             free (no API), starter, growth or platform": {"admin", "org", "set"},
		"127.0.0.1:9090": {"serve"},
		"127.0.0.1:9091": {"work"},
		"--secret-file":  {"webhooks", "receive"},
	} {
		var help bytes.Buffer
		require.NoError(t, run(t.Context(), append(command, "--help"), nil, &help, &help))
		require.Contains(t, help.String(), words)
	}
}
