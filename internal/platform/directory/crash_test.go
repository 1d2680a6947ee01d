package directory_test

import (
	"encoding/hex"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/parley-chat/parley/internal/platform/directory"
	"github.com/parley-chat/parley/internal/platform/ids"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/proof"
)

// kills is how many processes are killed.
func kills() int { return proof.Sized(60, 200) }

// outcome tells whether a cell holds the route after a process died at a step.
type outcome string

const (
	held   outcome = "held"
	free   outcome = "free"
	either outcome = "either"
)

// deathPoint is a step at which a process dies, and the outcome.
type deathPoint struct {
	step string
	left outcome
}

var claiming = []deathPoint{
	{"claimed", free},
	{beforeCommit, free},
	{inCommit, either},
	{afterCommit, held},
	{"committed", held},
	{"confirmed", held},
}

var releasing = []deathPoint{
	{"announced", held},
	{beforeCommit, held},
	{inCommit, either},
	{afterCommit, free},
	{"release committed", free},
	{"released", free},
}

// crash is a killing and its expected outcome.
type crash struct {
	killing

	left outcome
	// rival is an organization of the other cell that claims the same route.
	rival ids.Org
	// taken is true when the rival got the route before Resolve ran.
	taken bool
}

// TestCrash_ProcessKilledAtEachStep_RoutesResolved kills processes between claim, commit and
// confirm, and then has the directory resolve their routes.
func TestCrash_ProcessKilledAtEachStep_RoutesResolved(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	f := newFixture(t)
	crashes := f.plan(t, rand.New(rand.NewPCG(seed, 0)))
	began := time.Now()
	var group errgroup.Group
	group.SetLimit(3)
	for _, one := range crashes {
		group.Go(func() error { return one.run() })
	}
	require.NoError(t, group.Wait())
	t.Logf("%d processes were killed in %s", len(crashes), time.Since(began))
	f.awaitDead(t)
	f.rivalsComeTooEarly(t, crashes)

	resolved, err := f.routes.Resolve(t.Context(), f.holds)
	require.NoError(t, err)
	require.Zero(t, resolved, "the steps are too young")
	f.clock.Move(6 * time.Minute)
	resolved, err = f.routes.Resolve(t.Context(), f.holds)
	require.NoError(t, err)
	require.NotZero(t, resolved)
	t.Logf("%d steps were resolved", resolved)
	f.agrees(t)
	f.tally(t, crashes)

	routes, homes := f.rows(t)
	f.clock.Move(6 * time.Minute)
	resolved, err = f.routes.Resolve(t.Context(), f.holds)
	require.NoError(t, err)
	require.Zero(t, resolved)
	routesAgain, homesAgain := f.rows(t)
	require.Equal(t, routes, routesAgain)
	require.Equal(t, homes, homesAgain)
	f.rivalsTakeWhatIsFree(t, crashes)
	f.agrees(t)
}

// plan spreads the kills over kinds, operations and steps.
func (f *fixture) plan(t *testing.T, random *rand.Rand) []*crash {
	t.Helper()
	var kinds []crash
	for _, kind := range []directory.Kind{directory.PhoneNumber, directory.SetupToken, directory.APIKey, ""} {
		for _, at := range claiming {
			kinds = append(kinds, crash{killing: killing{Kind: kind, Step: at.step}, left: at.left})
		}
		for _, at := range releasing {
			if _, given := things[kind]; given {
				kinds = append(kinds, crash{killing: killing{Kind: kind, Release: true, Step: at.step}, left: at.left})
			}
		}
	}
	living := map[string][]ids.Org{}
	for range 3 {
		for name, cell := range f.cells {
			org, _ := cell.Org(t)
			living[name] = append(living[name], org)
		}
	}
	cells := []string{amber, birch}
	var crashes []*crash
	for number := range kills() {
		if number%len(kinds) == 0 {
			random.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
		}
		one := kinds[number%len(kinds)]
		here := random.IntN(2)
		one.Number, one.Cell, one.URLs, one.Now = number, cells[here], f.urls, f.clock.Now()
		one.Org, one.rival = living[cells[here]][random.IntN(3)], living[cells[1-here]][random.IntN(3)]
		if _, given := things[one.Kind]; given && random.IntN(2) == 0 {
			one.FormerCell = cells[random.IntN(2)]
			one.Former = living[one.FormerCell][random.IntN(3)]
		}
		crashes = append(crashes, &one)
	}
	return crashes
}

// run starts the process and expects it to be killed.
func (c *crash) run() error {
	encoded, err := json.Marshal(c.killing)
	if err != nil {
		return err
	}
	command := exec.Command(os.Args[0], "-test.run=^TestCrash_Child$")
	command.Env = append(os.Environ(), killingVariable+"="+string(encoded))
	output, _ := command.CombinedOutput()
	status, is := command.ProcessState.Sys().(syscall.WaitStatus)
	if !is || !status.Signaled() || status.Signal() != syscall.SIGKILL {
		return &strayed{c: c, output: output}
	}
	return nil
}

type strayed struct {
	c      *crash
	output []byte
}

func (s *strayed) Error() string {
	return s.c.name() + " did not die " + s.c.Step + " of " + string(s.c.Kind) + ": " + string(s.output)
}

// awaitDead waits until the servers have closed the connections of the dead processes, because a
// commit may still be running there.
func (f *fixture) awaitDead(t *testing.T) {
	t.Helper()
	for _, db := range []*postgres.DB{f.db, f.cells[amber].DB, f.cells[birch].DB} {
		require.Eventually(t, func() bool {
			alive, err := postgres.One[int](t.Context(), db.System("test"), `
				SELECT count(*) FROM pg_stat_activity
				WHERE datname = current_database() AND application_name = @name`, postgres.Args{"name": childName})
			return err == nil && alive == 0
		}, 3*time.Minute, 20*time.Millisecond)
	}
}

// rivalsComeTooEarly claims half of the routes for other organizations before Resolve ran. Only
// routes whose release was finished are free.
func (f *fixture) rivalsComeTooEarly(t *testing.T, crashes []*crash) {
	t.Helper()
	for _, one := range crashes {
		if _, given := things[one.Kind]; !given || one.Number%2 == 0 {
			continue
		}
		_, err := claim(t.Context(), f.routes, f.cells[one.other()].DB, one.Kind, one.key(), one.rival)
		switch {
		case err == nil && one.Release && (one.Step == "released" || one.Step == inCommit):
			one.Org, one.Cell, one.rival, one.left = one.rival, one.other(), one.Org, held
			one.taken = true
		default:
			require.ErrorIs(t, err, directory.ErrTaken, "%+v", one.killing)
			require.False(t, one.Release && one.Step == "released", "%+v was free", one.killing)
		}
	}
}

func (c *crash) other() string {
	if c.Cell == amber {
		return birch
	}
	return amber
}

// rivalsTakeWhatIsFree claims every route for another organization: those that are free can be
// claimed.
func (f *fixture) rivalsTakeWhatIsFree(t *testing.T, crashes []*crash) {
	t.Helper()
	for _, one := range crashes {
		if _, given := things[one.Kind]; !given {
			continue
		}
		_, err := claim(t.Context(), f.routes, f.cells[one.other()].DB, one.Kind, one.key(), one.rival)
		if one.left == held {
			require.ErrorIs(t, err, directory.ErrTaken, "%+v", one.killing)
		} else {
			require.NoError(t, err, "%+v", one.killing)
		}
	}
}

// tally compares each crash with its expected outcome, and sets the outcome of those that died
// in the commit.
func (f *fixture) tally(t *testing.T, crashes []*crash) {
	t.Helper()
	have := map[string]ids.Org{}
	for _, cell := range f.cells {
		for _, one := range f.holdings(t)[cell.Name] {
			have[string(one.Kind)+" "+one.Key] = one.OrgID
		}
		type named struct {
			Name  string
			OrgID ids.Org
		}
		all, err := postgres.Many[named](t.Context(), cell.DB.System("test"), `
			SELECT 'api_key ' || name AS name, org_id FROM api_keys UNION ALL SELECT ' ' || name, org_id FROM organizations`, nil)
		require.NoError(t, err)
		for _, one := range all {
			have[one.Name] = one.OrgID
		}
	}
	figures := map[string]map[outcome]int{}
	for _, one := range crashes {
		name := one.name()
		if _, given := things[one.Kind]; given {
			name = hex.EncodeToString(one.key())
		}
		owner, has := have[string(one.Kind)+" "+name]
		came := free
		if has {
			came = held
		}
		if one.left != either {
			require.Equal(t, one.left, came, "%+v", one.killing)
		}
		if has && one.Kind != "" {
			require.Equal(t, one.Org, owner, "%+v", one.killing)
		}
		one.left = came
		label := "claim: " + one.Step
		if one.Release {
			label = "release: " + one.Step
		}
		if one.taken {
			label += ", then a rival"
		}
		if figures[label] == nil {
			figures[label] = map[outcome]int{}
		}
		figures[label][came]++
	}
	for _, label := range slices.Sorted(maps.Keys(figures)) {
		t.Logf("%-40s held %3d, free %3d", label, figures[label][held], figures[label][free])
	}
}
