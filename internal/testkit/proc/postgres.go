package proc

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// Postgres is a PostgreSQL server of one test, which can crash it and start it again.
type Postgres struct {
	Address string
	// Dir belongs to the user of the server. The data are in its directory data.
	Dir string

	bin     string
	as      *syscall.SysProcAttr
	command *exec.Cmd
}

// NewPostgres starts a server that is gone when the test ends. Settings are lines of postgresql.conf. Without any it
// keeps its promises on disk, as that of the product does.
func NewPostgres(t testing.TB, settings ...string) *Postgres {
	t.Helper()
	p := preparePostgres(t)
	output, err := p.Command("initdb", "--pgdata="+p.data(), "--username=postgres", "--auth=trust", "--no-sync").CombinedOutput()
	require.NoError(t, err, "%s", output)
	settings = append([]string{"listen_addresses = '127.0.0.1'", "unix_socket_directories = ''"}, settings...)
	file, err := os.OpenFile(filepath.Join(p.data(), "postgresql.conf"), os.O_WRONLY|os.O_APPEND, 0o600)
	require.NoError(t, err)
	_, err = file.WriteString(strings.Join(settings, "\n") + "\n")
	require.NoError(t, err)
	require.NoError(t, file.Close())
	p.Start(t)
	return p
}

// preparePostgres has an empty directory and an address, and ends what was started there.
func preparePostgres(t testing.TB) *Postgres {
	t.Helper()
	p := &Postgres{Address: FreeAddress(t), bin: serverBinaries(t), as: unprivileged(t)}
	var err error
	p.Dir, err = os.MkdirTemp("", "parley-postgres") //nolint:usetesting // the server's user must reach it
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(p.Dir) })
	if owner := p.as.Credential; owner != nil {
		require.NoError(t, os.Chown(p.Dir, int(owner.Uid), int(owner.Gid)))
	}
	t.Cleanup(p.Crash)
	return p
}

// serverBinaries finds PostgreSQL where Debian puts it, or else on the path.
func serverBinaries(t testing.TB) string {
	t.Helper()
	if found, _ := filepath.Glob("/usr/lib/postgresql/*/bin"); len(found) > 0 {
		return found[len(found)-1]
	}
	found, err := exec.LookPath("postgres")
	require.NoError(t, err)
	return filepath.Dir(found)
}

// unprivileged is who runs the server: it refuses to be run by root.
func unprivileged(t testing.TB) *syscall.SysProcAttr {
	t.Helper()
	if os.Getuid() != 0 {
		return &syscall.SysProcAttr{}
	}
	owner, err := user.Lookup("postgres")
	require.NoError(t, err)
	uid, err := strconv.ParseUint(owner.Uid, 10, 32)
	require.NoError(t, err)
	gid, err := strconv.ParseUint(owner.Gid, 10, 32)
	require.NoError(t, err)
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
}

func (p *Postgres) data() string { return filepath.Join(p.Dir, "data") }

func (p *Postgres) port() string {
	_, port, _ := net.SplitHostPort(p.Address) // FreeAddress made it
	return port
}

// Command is a program of PostgreSQL, or of the system, that the user of the server runs. It connects to this server.
func (p *Postgres) Command(program string, args ...string) *exec.Cmd {
	command := exec.Command(program, args...)
	if ours := filepath.Join(p.bin, program); !strings.Contains(program, "/") {
		if _, err := os.Stat(ours); err == nil {
			command = exec.Command(ours, args...)
		}
	}
	command.Dir, command.SysProcAttr = p.Dir, p.as
	command.Env = []string{"PATH=" + p.bin + ":" + os.Getenv("PATH"), "PGHOST=127.0.0.1", "PGPORT=" + p.port(), "PGUSER=postgres", "PGCTLTIMEOUT=240"}
	return command
}

// Script runs lines of a shell as the user of the server, with these variables.
func (p *Postgres) Script(t testing.TB, lines string, variables map[string]string) {
	t.Helper()
	command := p.Command("bash", "-euo", "pipefail", "-c", lines)
	for name, value := range variables {
		command.Env = append(command.Env, name+"="+value)
	}
	// A server that the script starts must not keep its pipe open.
	output, err := os.CreateTemp("", "parley-script") //nolint:usetesting // as Dir
	require.NoError(t, err)
	defer func() { _, _ = output.Close(), os.Remove(output.Name()) }()
	command.Stdout, command.Stderr = output, output
	if err := command.Run(); err != nil {
		text, _ := os.ReadFile(output.Name())
		require.NoError(t, err, "%s\n%s", lines, text)
	}
}

// URL is the address of a database of the server.
func (p *Postgres) URL(database string) string {
	return fmt.Sprintf("postgres://postgres@%s/%s?sslmode=disable", p.Address, database)
}

// Start returns when the server answers, with what it had committed.
func (p *Postgres) Start(t testing.TB) {
	t.Helper()
	p.command = p.Command("postgres", "-D", p.data(), "-p", p.port())
	log, err := os.OpenFile(p.Dir+".log", os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	require.NoError(t, err)
	defer func() { _ = log.Close() }()
	t.Cleanup(func() { _ = os.Remove(p.Dir + ".log") })
	p.command.Stdout, p.command.Stderr = log, log
	require.NoError(t, p.command.Start())
	p.awaitWrites(t)
}

// awaitWrites waits until the server accepts changes.
func (p *Postgres) awaitWrites(t testing.TB) {
	t.Helper()
	Eventually(t, 4*Patience, "PostgreSQL accepts changes", func() bool {
		conn, err := pgx.Connect(t.Context(), p.URL("postgres"))
		if err != nil {
			return false
		}
		defer func() { _ = conn.Close(t.Context()) }()
		recovering := true
		err = conn.QueryRow(t.Context(), `SELECT pg_is_in_recovery()`).Scan(&recovering)
		return err == nil && !recovering
	})
}

// Crash is what `pg_ctl stop -m immediate` does: no process of the server finishes anything.
func (p *Postgres) Crash() {
	if p.command == nil {
		return
	}
	_ = p.command.Process.Signal(syscall.SIGQUIT)
	if err := p.command.Wait(); err != nil && errors.Is(err, os.ErrProcessDone) {
		return
	}
}

// Recovered is a server that a script has recovered into its data directory and started; the test ends it. The script
// gets the directory as DATA.
func Recovered(t testing.TB, script string, variables map[string]string) *Postgres {
	t.Helper()
	p := preparePostgres(t)
	variables["DATA"] = p.data()
	t.Cleanup(func() { _ = p.Command("pg_ctl", "--pgdata="+p.data(), "--mode=immediate", "stop").Run() })
	p.Script(t, script, variables)
	p.awaitWrites(t)
	return p
}
