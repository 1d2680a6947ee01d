package app

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
)

// network is the messaging network of a process.
type network struct {
	// simulated marks a `parley dev` with a network on this machine. The databases that it makes belong to that network.
	simulated bool
	// here tells that the network is on this machine, so that it is a simulated one.
	here bool
}

// The known texts of a cell. devNetwork marks a cell that `parley dev` made on a simulated network; every other cell has
// realNetwork, also one that `serve` made with a simulator.
const (
	realNetwork = "parley"
	devNetwork  = "parley, made by dev"
)

// text is the known text of a cell that this process makes.
func (n network) text() string {
	if n.simulated {
		return devNetwork
	}
	return realNetwork
}

// errOtherNetwork refuses a database whose numbers and messages belong to another network.
var errOtherNetwork = errors.New("the database belongs to another network")

// errMadeByDev refuses a database under the published key. setting is the one with its URL.
func errMadeByDev(setting string) error {
	return fmt.Errorf("%w: `parley dev` made it under its published key, so nothing in it is secret. "+
		"Make another database with `createdb`, and set %s to it", errOtherNetwork, setting)
}

// refuses returns why this process must not use a cell with that known text. published tells that the text is under the
// published key: only `parley dev` uses that. setting is the one with the cell's URL.
func (n network) refuses(text string, published bool, setting string) error {
	switch {
	case text == devNetwork && !n.here:
		return fmt.Errorf("%w: `parley dev` made it, and its numbers are simulated. Make another database with `createdb`, and set "+
			"%s to it; or set PARLEY_PROVIDER_BASE_URL to a `parley simulator` on this machine", errOtherNetwork, setting)
	case text == realNetwork && n.simulated && !published:
		return fmt.Errorf("%w: `parley dev` did not make it, so its messages would go to the simulated network and be lost. "+
			"Set %s to another database", errOtherNetwork, setting)
	default:
		return nil
	}
}

// network is that of PARLEY_PROVIDER_BASE_URL.
func (c Config) network() network {
	here := local(c.ProviderURL)
	return network{simulated: c.Dev && here, here: here}
}

// local tells whether an address is on this machine.
func local(address string) bool {
	parsed, err := url.Parse(address)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(parsed.Hostname())
	return parsed.Hostname() == "localhost" || err == nil && ip.IsLoopback()
}
