package app

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDurability_SettingsThatLoseChanges_Warned(t *testing.T) {
	t.Parallel()
	safe := durability{Fsync: "on", FullPageWrites: "on", SynchronousCommit: "on"}
	with := func(change func(*durability)) durability {
		changed := safe
		change(&changed)
		return changed
	}
	for name, c := range map[string]struct {
		server           durability
		crash, failover  string
		crashes, failing bool
	}{
		"safe, alone":     {server: safe, crash: "loses no committed change", failover: "none attached"},
		"no fsync":        {server: with(func(d *durability) { d.Fsync = "off" }), crash: "fsync off: a crash of the machine can destroy", crashes: true},
		"torn pages":      {server: with(func(d *durability) { d.FullPageWrites = "off" }), crash: "full_page_writes off: a crash of", crashes: true},
		"late commits":    {server: with(func(d *durability) { d.SynchronousCommit = "off" }), crash: "synchronous_commit off: a crash loses", crashes: true},
		"asynchronous":    {server: with(func(d *durability) { d.Standbys = 2 }), failover: "2 attached, all asynchronous", failing: true},
		"commits wait":    {server: with(func(d *durability) { d.Standbys, d.SynchronousStandbyNames = 1, "b" }), failover: "commits wait for b"},
		"named, not used": {server: with(func(d *durability) { d.Standbys, d.SynchronousStandbyNames, d.SynchronousCommit = 1, "b", "local" }), failover: "all asynchronous", failing: true},
		"named, missing":  {server: with(func(d *durability) { d.SynchronousStandbyNames = "b" }), failover: "no standby is attached", failing: true},
	} {
		crash, failover := c.server.crash("durability"), c.server.failover("standby")
		require.Contains(t, crash.Found, c.crash, name)
		require.Contains(t, failover.Found, c.failover, name)
		require.Equal(t, []bool{c.crashes, c.crashes}, []bool{crash.Warning, crash.Fix != ""}, name)
		require.Equal(t, []bool{c.failing, c.failing}, []bool{failover.Warning, failover.Fix != ""}, name)
	}
}
