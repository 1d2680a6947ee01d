package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

// dockerfile is what the checks need of the Dockerfile.
type dockerfile struct {
	bases      []string // the base of each stage
	steps      []string // the RUN commands of the first stage
	user       string   // the last USER of the final stage
	entrypoint []string // the ENTRYPOINT of the final stage, empty if it needs a shell
	warnings   []error  // of the linter
}

func readDockerfile(directory string) (*dockerfile, error) {
	content, err := os.ReadFile(filepath.Join(directory, "Dockerfile"))
	if err != nil {
		return nil, err
	}
	parsed, err := parser.Parse(bytes.NewReader(content))
	if err != nil {
		return nil, fmt.Errorf("Dockerfile: %w", err)
	}
	file := &dockerfile{}
	lint := linter.New(&linter.Config{Warn: func(rule, _, _, message string, location []parser.Range) {
		line := 0
		if len(location) > 0 {
			line = location[0].Start.Line
		}
		file.warnings = append(file.warnings, fmt.Errorf("Dockerfile, line %d: %s (%s)", line, message, rule))
	}})
	stages, _, err := instructions.Parse(parsed.AST, lint)
	if err != nil {
		return nil, fmt.Errorf("Dockerfile: %w", err)
	}
	if len(stages) == 0 {
		return nil, errors.New("Dockerfile: no stage")
	}
	for _, stage := range stages {
		file.bases = append(file.bases, stage.BaseName)
	}
	for _, command := range stages[0].Commands {
		if step, is := command.(*instructions.RunCommand); is {
			file.steps = append(file.steps, strings.Join(step.CmdLine, " "))
		}
	}
	for _, command := range stages[len(stages)-1].Commands {
		switch command := command.(type) {
		case *instructions.UserCommand:
			file.user = command.User
		case *instructions.EntrypointCommand:
			file.entrypoint = nil
			if !command.PrependShell {
				file.entrypoint = command.CmdLine
			}
		}
	}
	return file, nil
}

func (d *dockerfile) check(directory string) error {
	mistakes := slices.Clone(d.warnings)
	if base := d.bases[len(d.bases)-1]; base != "scratch" {
		mistakes = append(mistakes, fmt.Errorf("Dockerfile: the final stage must start from scratch, not from %s", base))
	}
	for _, base := range d.bases {
		mistakes = append(mistakes, checkImage("Dockerfile", base))
	}
	if _, _, err := d.userAndGroup(); err != nil {
		mistakes = append(mistakes, err)
	}
	if !slices.Equal(d.entrypoint, []string{"/parley"}) {
		mistakes = append(mistakes, fmt.Errorf(`Dockerfile: the ENTRYPOINT must be ["/parley"], not %q`, d.entrypoint))
	}
	return errors.Join(append(mistakes, d.checkGo(directory))...)
}

// userAndGroup refuses names: a scratch image has no /etc/passwd to look them up in.
func (d *dockerfile) userAndGroup() (user, group int, err error) {
	name, groupName, _ := strings.Cut(d.user, ":")
	user, bad := strconv.Atoi(name)
	group, badGroup := strconv.Atoi(groupName)
	if bad != nil || badGroup != nil || user < 1 || group < 1 {
		return 0, 0, fmt.Errorf("Dockerfile: the final stage needs USER with the numbers of a user and a group that are not root; got %q", d.user)
	}
	return user, group, nil
}

// checkGo compares the image's Go with go.mod: an older one would refuse to build.
func (d *dockerfile) checkGo(directory string) error {
	module, err := os.ReadFile(filepath.Join(directory, "go.mod"))
	if err != nil {
		return err
	}
	found := regexp.MustCompile(`(?m)^go (\S+)$`).FindSubmatch(module)
	if found == nil {
		return fmt.Errorf("go.mod: no line `go VERSION`")
	}
	if !strings.HasPrefix(d.bases[0]+"-", "golang:"+string(found[1])+"-") {
		return fmt.Errorf("Dockerfile: the build stage must use the Go version of go.mod, %s; it starts from %s", found[1], d.bases[0])
	}
	return nil
}

// checkImage refuses names with a registry host. Docker takes the part before the first slash for a
// host if it has a dot or a colon.
func checkImage(where, image string) error {
	host, _, found := strings.Cut(image, "/")
	if found && strings.ContainsAny(host, ".:") {
		return fmt.Errorf("%s: the image %s names a registry; use a name that any registry can serve", where, image)
	}
	return nil
}
