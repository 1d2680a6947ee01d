package lanes_test

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/platform/jobs"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/proc"
	"github.com/parley-chat/parley/schema"
)

// server is a PostgreSQL of the test's own, which it may crash.
type server struct {
	bin, dir string
	address  string
	as       *syscall.SysProcAttr
	command  *exec.Cmd
}

// newServer starts one that is gone when the test ends. It keeps its promises on disk, as
// that of the product does.
func newServer(t *testing.T) *server {
	t.Helper()
	p := &server{bin: serverBinaries(t), address: proc.FreeAddress(t), as: unprivileged(t)}
	var err error
	p.dir, err = os.MkdirTemp("", "parley-postgres") //nolint:usetesting // the server's user must reach it
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(p.dir) })
	if owner := p.as.Credential; owner != nil {
		require.NoError(t, os.Chown(p.dir, int(owner.Uid), int(owner.Gid)))
	}
	output, err := p.run("initdb", "--pgdata="+p.dir, "--username=postgres", "--auth=trust", "--no-sync").CombinedOutput()
	require.NoError(t, err, "%s", output)
	p.start(t)
	t.Cleanup(p.crash)
	p.migrate(t)
	return p
}

// serverBinaries finds PostgreSQL where Debian puts it, or else on the path.
func serverBinaries(t *testing.T) string {
	t.Helper()
	if found, _ := filepath.Glob("/usr/lib/postgresql/*/bin"); len(found) > 0 {
		return found[len(found)-1]
	}
	found, err := exec.LookPath("postgres")
	require.NoError(t, err)
	return filepath.Dir(found)
}

// unprivileged is who runs the server: it refuses to be run by root.
func unprivileged(t *testing.T) *syscall.SysProcAttr {
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

func (p *server) run(program string, args ...string) *exec.Cmd {
	command := exec.Command(filepath.Join(p.bin, program), args...)
	command.Dir, command.SysProcAttr = p.dir, p.as
	return command
}

func (p *server) url() string {
	return "postgres://postgres@" + p.address + "/postgres?sslmode=disable"
}

// start returns when the server answers, with what it had committed.
func (p *server) start(t *testing.T) {
	t.Helper()
	_, port, err := net.SplitHostPort(p.address)
	require.NoError(t, err)
	p.command = p.run("postgres", "-D", p.dir, "-p", port, "-k", "", "-c", "listen_addresses=127.0.0.1", "-c", "max_connections=60")
	log, err := os.OpenFile(p.dir+".log", os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	require.NoError(t, err)
	defer log.Close()
	t.Cleanup(func() { _ = os.Remove(p.dir + ".log") })
	p.command.Stdout, p.command.Stderr = log, log
	require.NoError(t, p.command.Start())
	db := connect(t, "start", p.url())
	require.Eventually(t, func() bool { return db.Ping(t.Context()) == nil }, settledWithin(), 5*time.Millisecond)
	db.Close()
}

// crash is what `pg_ctl stop -m immediate` does: no process of the server finishes anything.
func (p *server) crash() {
	_ = p.command.Process.Signal(syscall.SIGQUIT)
	if err := p.command.Wait(); err != nil && errors.Is(err, os.ErrProcessDone) {
		return
	}
}

func (p *server) migrate(t *testing.T) {
	t.Helper()
	_, err := postgres.Migrate(t.Context(), p.url(), schema.Migrations())
	require.NoError(t, err)
	_, err = jobs.Migrate(t.Context(), connect(t, "migrate", p.url()))
	require.NoError(t, err)
}
