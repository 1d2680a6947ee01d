package safehttp

import "net/netip"

// forbidden are addresses that must never be called: both ends of each range, and known services.
var forbidden = []string{
	"0.0.0.0", "0.0.0.1", "0.255.255.255",
	"10.0.0.0", "10.0.0.1", "10.96.0.1", "10.255.255.255",
	"100.64.0.0", "100.100.100.200", "100.127.255.255",
	"127.0.0.0", "127.0.0.1", "127.0.0.53", "127.1.2.3", "127.255.255.255",
	"168.63.129.16",
	"169.254.0.0", "169.254.169.254", "169.254.170.2", "169.254.169.253", "169.254.255.255",
	"172.16.0.0", "172.16.0.1", "172.17.0.1", "172.31.255.255",
	"192.0.0.0", "192.0.0.192", "192.0.0.255", "192.0.2.1", "192.31.196.1", "192.52.193.1", "192.88.99.1", "192.175.48.1",
	"192.168.0.0", "192.168.0.1", "192.168.1.1", "192.168.255.255",
	"198.18.0.0", "198.19.255.255", "198.51.100.7", "203.0.113.7",
	"224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.254", "255.255.255.255",
	"::", "::1", "::2", "::7f00:1", "::10.0.0.1", "::8.8.8.8",
	"::ffff:127.0.0.1", "::ffff:7f00:1", "::ffff:a00:1", "::ffff:169.254.169.254", "::ffff:0:127.0.0.1",
	"64:ff9b::", "64:ff9b::127.0.0.1", "64:ff9b::a9fe:a9fe", "64:ff9b::8.8.8.8", "64:ff9b:1::", "64:ff9b:1:ffff::1",
	"100::1", "100:0:0:1::1", "200::1", "1fff::1", "4000::1", "5f00::1", "5f00:ffff::1",
	"2001::1", "2001:0:7f00:1::1", "2001:1::1", "2001:2::1", "2001:10::1", "2001:20::1", "2001:1ff:ffff::1", "2001:db8::1",
	"2002::1", "2002:7f00:1::1", "2002:a9fe:a9fe::1", "2002:808:808::1", "2620:4f:8000::1", "3fff::1", "3fff:fff::1",
	"fc00::1", "fd00::1", "fd00:ec2::254", "fd20:ce::254", "fdff:ffff::1",
	"fe80::1", "fe80::a9fe:a9fe", "febf::1", "fec0::1", "feff::1", "ff02::1", "ff05::2", "ffff::1",
}

// permitted are the addresses next to those ranges, and a few well-known public ones.
var permitted = []string{
	"1.0.0.0", "1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.0",
	"168.63.129.15", "168.63.129.17", "169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0", "191.255.255.255", "192.0.1.0",
	"192.0.3.0", "192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0", "198.51.99.255", "198.51.101.0", "203.0.112.255",
	"203.0.114.0", "223.255.255.255",
	"2000::1", "2001:200::1", "2001:4860:4860::8888", "2001:db7:ffff::1", "2001:db9::1", "2003::1", "2606:4700::1111",
	"2620:4f:7fff::1", "2620:4f:8001::1", "3ffe::1", "3fff:1000::1",
}

// spelled are URLs that hide an address or an internal name by an unusual spelling.
var spelled = []string{
	// addresses as numbers
	"https://2130706433/", "https://3232235777/", "https://2852039166/", "https://0/", "https://0x7f000001/", "https://0x7f.0.0.1/",
	"https://0x7f.1/", "https://0x7F000001/", "https://0xa9fea9fe/", "https://017700000001/", "https://0177.0.0.1/", "https://0177.1/",
	"https://127.1/", "https://127.0.1/", "https://10.1/", "https://169.254.43518/", "https://127.0.0.01/", "https://127.0.0.1./",
	"https://0x0/", "https://0x/", "https://00000177.0.0.1/", "https://127.0.0.0x1/", "https://1.2.3.4.5/", "https://256.256.256.256/",
	"https://127.0.0.1.1/", "https://4294967297/", "https://hooks.example.com.127/",
	// addresses in brackets
	"https://[127.0.0.1]/", "https://[::ffff:8.8.8.8]/", "https://[fe80::1%25eth0]/", "https://[fe80::1%25lo]/", "https://[::1%251]/",
	"https://[2606:4700::1111%25eth0]/", "https://[fe80::1%lo]/", "https://::1/", "https://[::1/", "https://::1]/", "https://[]/",
	"https://[0:0:0:0:0:0:0:1]/", "https://[0000:0000::0001]/", "https://[::ffff:0x7f.1]/", "https://[v1.fe80::1]/", "https://[localhost]/",
	// local names
	"https://localhost/", "https://LOCALHOST/", "https://localhost./", "https://a.localhost/", "https://localhost:8443/",
	"https://localhost.localdomain/", "https://ip6-localhost/", "https://ip6-loopback/", "https://broadcasthost/", "https://printer.local/",
	"https://metadata/", "https://metadata.google.internal/", "https://METADATA.google.INTERNAL/", "https://metadata.google.internal./",
	"https://instance-data/", "https://instance-data.ec2.internal/", "https://ip-10-0-0-1.ec2.internal/", "https://kubernetes/",
	"https://kubernetes.default.svc/", "https://kubernetes.default.svc.cluster.local/", "https://host.docker.internal/",
	"https://gateway.docker.internal/", "https://postgres/", "https://redis:6379/", "https://router.lan/", "https://nas.home.arpa/",
	"https://wiki.corp/", "https://vault.private/", "https://wiki.intranet/",
	// characters that parsers read differently
	"https://%31%32%37.0.0.1/", "https://127%2e0%2e0%2e1/", "https://localhos%74/", "https://loc%00alhost/", "https://１２７.０.０.１/",
	"https://127。0。0。1/", "https://ⓛⓞⓒⓐⓛⓗⓞⓢⓣ/", "https://lOcAlHoﬆ/", "https://hooks.example.com\\@127.0.0.1/",
	"https:\\\\127.0.0.1\\", "https://127.0.0.1\\.example.com/", "https://hooks.example.com\t/", "https://hooks.example.com /",
	" https://hooks.example.com/", "https://hooks.example.com/\r\nHost: 127.0.0.1", "https://hooks.example.com/\x00", "https://127.0.0.1\n/",
	"https://hooks\u00ad.example.com/", "https://hooks.example.com/a b", "https://hooks.example.com/\u200b", "https://a,b.example.com/",
	"https://hooks.example.com;127.0.0.1/", "https://hooks.example.com&127.0.0.1/", "https://hooks_.example.com!/", "https://*.example.com/",
	"https://-hooks.example.com/", "https://hooks-.example.com/", "https://hooks..example.com/", "https://.example.com/", "https://hooks.example.com./",
	"https://./", "https://../",
	// credentials and fragments
	"https://user@hooks.example.com/", "https://user:pass@hooks.example.com/", "https://@hooks.example.com/", "https://:@hooks.example.com/",
	"https://hooks.example.com@127.0.0.1/", "https://8.8.8.8@127.0.0.1/", "https://127.0.0.1@8.8.8.8/", "https://a@b@127.0.0.1/",
	"https://127.0.0.1:443@8.8.8.8:443@10.0.0.1/", "https://hooks.example.com/#", "https://hooks.example.com/#x", "https://127.0.0.1#.example.com/",
	"https://hooks.example.com#@127.0.0.1/",
	// ports
	"https://hooks.example.com:80/", "https://hooks.example.com:22/", "https://hooks.example.com:25/", "https://hooks.example.com:1023/",
	"https://hooks.example.com:0/", "https://hooks.example.com:/", "https://hooks.example.com:65536/", "https://hooks.example.com:65979/",
	"https://hooks.example.com:0443/", "https://hooks.example.com:-443/", "https://hooks.example.com:+443/", "https://hooks.example.com:443x/",
	"https://hooks.example.com:https/", "https://hooks.example.com:443:80/", "https://127.0.0.1:443:80/", "https://8.8.8.8:22/",
	"https://hooks.example.com: 443/", "https://[2606:4700::1111]:22/", "https://[2606:4700::1111]443/", "https://:443/",
	// schemes and no host
	"http://hooks.example.com/", "http://127.0.0.1/", "http://8.8.8.8/", "ftp://hooks.example.com/", "file:///etc/passwd", "gopher://127.0.0.1:6379/_INFO",
	"dict://127.0.0.1:6379/", "unix:///run/docker.sock", "data:text/plain,x", "javascript:alert(1)", "ws://hooks.example.com/", "httpss://127.0.0.1/",
	"//127.0.0.1/", "127.0.0.1", "hooks.example.com", "/etc/passwd", "", "https", "https:", "https:/127.0.0.1/", "https://", "https:///", "https:///127.0.0.1/",
	"https:127.0.0.1", "https://?host=127.0.0.1", "://127.0.0.1/", "https://https://127.0.0.1/", "url:https://127.0.0.1/",
}

// innocent are URLs whose names look public and resolve to forbidden addresses.
var innocent = []string{
	"https://hooks.example.com/", "https://127.0.0.1.nip.io/", "https://localtest.me/", "https://169.254.169.254.nip.io/", "https://lvh.me:8443/",
	"https://customer1.app.localhost.example.com/", "https://metadata.google.internal.example.com/", "https://spoofed.burpcollaborator.net:9200/",
	"https://xn--bcher-kva.example/", "https://a.b.c.d.e.f.example.com:6379/",
}

// hostile returns every URL that must be refused.
func hostile() []string {
	all := append([]string(nil), spelled...)
	for _, text := range forbidden {
		host := text
		if addr := netip.MustParseAddr(text); addr.Is6() {
			host = "[" + text + "]"
		}
		all = append(all, "https://"+host+"/", "https://"+host+":8443/hook?x=1")
	}
	return all
}
