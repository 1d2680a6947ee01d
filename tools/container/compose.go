package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
)

// parleyImage is the image of the Parley services in compose.yaml.
const parleyImage = "parley"

// secrets are the variables that compose.yaml must demand, with values that are good enough for a check.
func secrets() map[string]string {
	return map[string]string{"PARLEY_MASTER_KEY": "checked", "POSTGRES_PASSWORD": "checked"}
}

// load reads compose.yaml with the services of all profiles. Without variables it takes them from the
// environment and .env, as Docker does.
func load(ctx context.Context, directory string, variables map[string]string) (*types.Project, error) {
	from := []cli.ProjectOptionsFn{cli.WithWorkingDirectory(directory), cli.WithProfiles([]string{"*"})}
	if variables == nil {
		from = append(from, cli.WithOsEnv, cli.WithEnvFiles(), cli.WithDotEnv)
	} else {
		from = append(from, cli.WithEnv(types.Mapping(variables).Values()))
	}
	options, err := cli.NewProjectOptions([]string{filepath.Join(directory, "compose.yaml")}, from...)
	if err != nil {
		return nil, err
	}
	project, err := options.LoadProject(ctx)
	if err != nil {
		return nil, fmt.Errorf("compose.yaml: %w", err)
	}
	return project, nil
}

func checkCompose(ctx context.Context, directory string) error {
	project, err := load(ctx, directory, secrets())
	if err != nil {
		return err
	}
	mistakes := []error{}
	for secret := range secrets() {
		without := secrets()
		delete(without, secret)
		if _, err := load(ctx, directory, without); err == nil {
			mistakes = append(mistakes, fmt.Errorf("compose.yaml: it must refuse to start without %s: write ${%s:?…}", secret, secret))
		}
	}
	parleys := 0
	for name, service := range project.Services {
		mistakes = append(mistakes, checkImage("compose.yaml, "+name, service.Image))
		if service.Image == parleyImage {
			parleys++
			mistakes = append(mistakes, checkParley(project, service))
		}
	}
	if parleys == 0 {
		mistakes = append(mistakes, fmt.Errorf("compose.yaml: no service has the image %s", parleyImage))
	}
	return errors.Join(mistakes...)
}

// checkParley checks what keeps a Parley container from changing its machine.
func checkParley(project *types.Project, service types.ServiceConfig) error {
	mistakes := []error{}
	for _, rule := range []struct {
		kept bool
		text string
	}{
		{service.ReadOnly, "read_only must be true"},
		{slices.Equal(service.CapDrop, []string{"ALL"}) && len(service.CapAdd) == 0, "cap_drop must be [ALL], without cap_add"},
		{slices.Contains(service.SecurityOpt, "no-new-privileges:true"), "security_opt must have no-new-privileges:true"},
		{service.User == "" && !service.Privileged, "it must run as the image's user, not privileged"},
		{len(service.Entrypoint) == 0 && len(service.Command) > 0, "it must name a command of parley, without an entrypoint"},
	} {
		if !rule.kept {
			mistakes = append(mistakes, fmt.Errorf("compose.yaml, %s: %s", service.Name, rule.text))
		}
	}
	return errors.Join(append(mistakes, checkDatabase(project, service), checkRedis(project, service))...)
}

// checkDatabase compares PARLEY_DATABASE_URL with the PostgreSQL service that it names.
func checkDatabase(project *types.Project, service types.ServiceConfig) error {
	address := service.Environment["PARLEY_DATABASE_URL"]
	if address == nil {
		return nil
	}
	parsed, err := url.Parse(*address)
	if err != nil {
		return fmt.Errorf("compose.yaml, %s: PARLEY_DATABASE_URL: %w", service.Name, err)
	}
	database := project.Services[parsed.Hostname()].Environment
	password, _ := parsed.User.Password()
	for variable, value := range map[string]string{
		"POSTGRES_USER": parsed.User.Username(), "POSTGRES_PASSWORD": password, "POSTGRES_DB": filepath.Base(parsed.Path),
	} {
		if set := database[variable]; set == nil || *set != value {
			return fmt.Errorf("compose.yaml, %s: PARLEY_DATABASE_URL does not agree with %s of the service %q", service.Name, variable, parsed.Hostname())
		}
	}
	return nil
}

func checkRedis(project *types.Project, service types.ServiceConfig) error {
	address := service.Environment["PARLEY_REDIS_URL"]
	if address == nil {
		return nil
	}
	parsed, err := url.Parse(*address)
	if err != nil {
		return fmt.Errorf("compose.yaml, %s: PARLEY_REDIS_URL: %w", service.Name, err)
	}
	if _, found := project.Services[parsed.Hostname()]; !found {
		return fmt.Errorf("compose.yaml, %s: PARLEY_REDIS_URL names %q, which is no service", service.Name, parsed.Hostname())
	}
	return nil
}

// startOrder returns the Parley services among these and their dependencies, dependencies first.
// Without names they are the services that belong to no profile.
func startOrder(project *types.Project, names []string) ([]string, error) {
	if len(names) == 0 {
		for name, service := range project.Services {
			if len(service.Profiles) == 0 {
				names = append(names, name)
			}
		}
		slices.Sort(names)
	}
	ordered := []string{}
	err := project.ForEachService(names, func(name string, service *types.ServiceConfig) error {
		if service.Image == parleyImage {
			ordered = append(ordered, name)
		}
		return nil
	})
	return ordered, err
}
