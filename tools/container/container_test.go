package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// copyFiles copies the checked files of the repository into a new directory. It replaces the first
// occurrence of old in one of them.
func copyFiles(t *testing.T, changed, old, replacement string) string {
	t.Helper()
	directory := t.TempDir()
	for _, name := range []string{"Dockerfile", "compose.yaml", "go.mod"} {
		content, err := os.ReadFile(filepath.Join("..", "..", name))
		if err != nil {
			t.Fatal(err)
		}
		text := string(content)
		if name == changed {
			if !strings.Contains(text, old) {
				t.Fatalf("%s does not contain %q", name, old)
			}
			text = strings.Replace(text, old, replacement, 1)
		}
		if err := os.WriteFile(filepath.Join(directory, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return directory
}

func TestCheck_FilesOfTheRepository(t *testing.T) {
	if err := check(t.Context(), copyFiles(t, "", "", "")); err != nil {
		t.Fatal(err)
	}
}

func TestCheck_BrokenFileIsRefused(t *testing.T) {
	for _, test := range []struct{ name, file, old, replacement, want string }{
		{"unknown instruction", "Dockerfile", "WORKDIR", "WROKDIR", "unknown instruction: WROKDIR"},
		{"flag that does not exist", "Dockerfile", "--from=build", "--form=build", "unknown flag: --form"},
		{"lint warning", "Dockerfile", "AS build", "as build", "FromAsCasing"},
		{"no user", "Dockerfile", "USER 65532:65532\n", "", "needs USER"},
		{"root", "Dockerfile", "USER 65532:65532", "USER 0:0", "needs USER"},
		{"root's group", "Dockerfile", "USER 65532:65532", "USER 65532:0", "needs USER"},
		{"root by name", "Dockerfile", "USER 65532:65532", "USER root", "needs USER"},
		{"user without a group", "Dockerfile", "USER 65532:65532", "USER 65532", "needs USER"},
		{"root after another user", "Dockerfile", "ENTRYPOINT", "USER 0:0\nENTRYPOINT", "needs USER"},
		{"user only in the build stage", "Dockerfile", "USER 65532:65532\n", "FROM scratch\n", "needs USER"},
		{"entrypoint that needs a shell", "Dockerfile", `ENTRYPOINT ["/parley"]`, "ENTRYPOINT /parley", "the ENTRYPOINT must be"},
		{"base with a shell", "Dockerfile", "FROM scratch", "FROM debian:12", "must start from scratch"},
		{"other Go than in go.mod", "Dockerfile", "golang:1.", "golang:1.1", "the Go version of go.mod"},
		{"registry in the Dockerfile", "Dockerfile", "FROM golang", "FROM images.example/golang", "names a registry"},
		{"no YAML", "compose.yaml", "services:", "services: [", "compose.yaml"},
		{"key that does not exist", "compose.yaml", "    restart: \"no\"", "    restarts: \"no\"", "restarts"},
		{"volume that is not declared", "compose.yaml", "volumes:\n  postgres:\n", "volumes:\n", "undefined volume"},
		{"dependency that does not exist", "compose.yaml", "redis: { condition", "valkey: { condition", "valkey"},
		{"writable root", "compose.yaml", "  read_only: true\n", "", "serve: read_only must be true"},
		{"one writable root", "compose.yaml", "    command: [work]", "    command: [work]\n    read_only: false", "work: read_only must be true"},
		{"capability", "compose.yaml", "    command: [work]", "    command: [work]\n    cap_add: [NET_ADMIN]", "work: cap_drop must be [ALL]"},
		{"new privileges", "compose.yaml", `  security_opt: ["no-new-privileges:true"]`, "  security_opt: []", "security_opt must have"},
		{"root in compose", "compose.yaml", "    command: [work]", "    command: [work]\n    user: root", "work: it must run as the image's user"},
		{"default master key", "compose.yaml", "${PARLEY_MASTER_KEY:?generate one with openssl rand -base64 32}", "${PARLEY_MASTER_KEY:-a}", "without PARLEY_MASTER_KEY"},
		{"other database", "compose.yaml", "POSTGRES_DB: parley", "POSTGRES_DB: other", "does not agree with POSTGRES_DB"},
		{"other database host", "compose.yaml", "@postgres:5432", "@database:5432", "does not agree with POSTGRES_"},
		{"other Redis host", "compose.yaml", "redis://redis", "redis://valkey", "PARLEY_REDIS_URL names"},
		{"registry in compose", "compose.yaml", "image: redis:7", "image: images.example/redis:7", "names a registry"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := check(t.Context(), copyFiles(t, test.file, test.old, test.replacement))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("want an error with %q; got %v", test.want, err)
			}
		})
	}
}
