// Command container checks the Dockerfile and compose.yaml of the current directory, and runs
// services of compose.yaml without Docker. scripts/check-container.sh uses it.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
)

const usage = `usage:
  container check                           report what is wrong with the Dockerfile and compose.yaml
  container steps                           print the RUN commands of the build stage
  container services [SERVICE...]           print these Parley services, or all without a profile, and those they
                                            depend on, in the order of their start
  container run ROOT SERVICE [COMMAND...]   run the service's command, or another one in its environment, as the
                                            image's user with the directory ROOT as its root
`

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, arguments []string) error {
	if len(arguments) == 0 {
		return errors.New(usage)
	}
	switch command, rest := arguments[0], arguments[1:]; {
	case command == "check" && len(rest) == 0:
		return check(ctx, ".")
	case command == "steps" && len(rest) == 0:
		return printSteps()
	case command == "services":
		return printServices(ctx, rest)
	case command == "run" && len(rest) >= 2:
		return runService(ctx, rest[0], rest[1], rest[2:])
	default:
		return errors.New(usage)
	}
}

// check reports all mistakes in both files.
func check(ctx context.Context, directory string) error {
	image, err := readDockerfile(directory)
	if err == nil {
		err = image.check(directory)
	}
	return errors.Join(err, checkCompose(ctx, directory))
}

func printSteps() error {
	image, err := readDockerfile(".")
	if err != nil {
		return err
	}
	for _, step := range image.steps {
		fmt.Println(step)
	}
	return nil
}

func printServices(ctx context.Context, names []string) error {
	project, err := load(ctx, ".", nil)
	if err != nil {
		return err
	}
	ordered, err := startOrder(project, names)
	if err != nil {
		return err
	}
	fmt.Println(strings.Join(ordered, "\n"))
	return nil
}

// runService replaces this process. Changing the user also drops all capabilities.
func runService(ctx context.Context, root, name string, command []string) error {
	image, err := readDockerfile(".")
	if err != nil {
		return err
	}
	user, group, err := image.userAndGroup()
	if err != nil {
		return err
	}
	project, err := load(ctx, ".", nil)
	if err != nil {
		return err
	}
	service, err := project.GetService(name)
	if err != nil {
		return err
	}
	if len(command) == 0 {
		command = append(image.entrypoint, service.Command...)
	}
	environment := []string{}
	for variable, value := range service.Environment {
		if value != nil {
			environment = append(environment, variable+"="+*value)
		}
	}
	if err := errors.Join(syscall.Chroot(root), syscall.Chdir("/"), syscall.Setgroups(nil), syscall.Setgid(group), syscall.Setuid(user)); err != nil {
		return fmt.Errorf("changing root and user: %w", err)
	}
	return fmt.Errorf("%s: %w", command[0], syscall.Exec(command[0], command, environment))
}
