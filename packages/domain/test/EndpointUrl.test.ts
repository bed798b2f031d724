import { refuse } from "@card-rewards/domain/EndpointUrl"
import { assert, describe, it } from "@effect/vitest"

const guarded = { allowPrivateNetwork: false }
const open = { allowPrivateNetwork: true }

/** URLs that must be refused, by what is wrong with them. */
const hostile: Readonly<Record<string, ReadonlyArray<string>>> = {
  "not https": [
    "http://hooks.acme.com/", "ftp://hooks.acme.com/", "ws://hooks.acme.com/", "wss://hooks.acme.com/",
    "file:///etc/passwd", "javascript:alert(1)", "data:text/plain,x", "gopher://hooks.acme.com/",
    "blob:https://hooks.acme.com/x",
    "//hooks.acme.com/", "/hook", "hooks.acme.com", "hooks.acme.com/hook", "", "https", "https:", "https:/", "https://",
    "https:///", "https:hooks.acme.com", "https:/hooks.acme.com", "https:///hooks.acme.com", "https:////hooks.acme.com",
    "https//hooks.acme.com", "httpss://hooks.acme.com", "xhttps://hooks.acme.com",
    "view-source:https://hooks.acme.com/",
    "https:?hooks.acme.com", "https://?hooks.acme.com", "ｈttps://hooks.acme.com/", "http://127.0.0.1/"
  ],
  "IPv4 in any spelling": [
    "https://127.0.0.1/", "https://10.0.0.1/", "https://169.254.169.254/latest/meta-data/", "https://8.8.8.8/",
    "https://93.184.216.34:8443/",
    "https://127.0.0.1./", "https://127.1/", "https://127.0.1/", "https://127/", "https://0/", "https://0.0.0.0/",
    "https://2130706433/", "https://2130706433./", "https://3232235777/", "https://4294967295/", "https://4294967296/",
    "https://0x7f000001/", "https://0X7F000001/", "https://0x7f.0.0.1/", "https://0x7f.1/", "https://0x7f.0x0.0x0.0x1/",
    "https://0x/",
    "https://017700000001/", "https://0177.0.0.1/", "https://0177.1/", "https://00000177.0.0.1/",
    "https://0177.0x0.0.1/",
    "https://127.0.0.0x1/", "https://1.2.3.4.5/", "https://256.1.1.1/", "https://127.0.0.256/", "https://08.8.8.8/",
    "https://1.1.1/",
    "https://１２７.０.０.１/", "https://①②⑦.0.0.1/", "https://127。0。0。1/", "https://127．0．0．1/", "https://127｡0｡0｡1/",
    "https://%31%32%37.0.0.1/", "https://127%2e0%2e0%2e1/", "https://127.0.0.1:443/", "https://127.0.0.1:65535/?a=b",
    "https://hooks.127.0.0.1/", "https://acme.com.1/", "https://acme.0x1/", "https://acme.0/",
    "https://hooks.acme.123/", "https://acme.0x/"
  ],
  "IPv6": [
    "https://[::1]/", "https://[::]/", "https://[0:0:0:0:0:0:0:1]/", "https://[::ffff:127.0.0.1]/",
    "https://[::ffff:7f00:1]/",
    "https://[::127.0.0.1]/", "https://[64:ff9b::7f00:1]/", "https://[2002:7f00:1::]/", "https://[2001:db8::1]/",
    "https://[fe80::1]/",
    "https://[fe80::1%25eth0]/", "https://[fc00::1]/", "https://[fd00:ec2::254]/", "https://[ff02::1]/",
    "https://[2606:4700::1111]/",
    "https://[2606:4700::1111]:8443/", "https://[::1].acme.com/", "https://[acme.com]/", "https://::1/",
    "https://[::1/",
    "https://[v1.fe80::a]/", "https://[]/", "https://fe80::1/", "https://[::ffff:0x7f.1]/", "https://［::1］/"
  ],
  "local and internal names": [
    "https://localhost/", "https://LOCALHOST/", "https://localhost./", "https://localhost../",
    "https://localhost:8443/",
    "https://foo.localhost/", "https://foo.LocalHost./", "https://printer.local/", "https://printer.LOCAL/",
    "https://printer.local./",
    "https://local/", "https://internal/", "https://metadata.google.internal/", "https://metadata.google.internal./",
    "https://api.Internal/", "https://ip-10-0-0-1.ec2.internal/", "https://router.home.arpa/", "https://home.arpa/",
    "https://HOME.ARPA./", "https://a.b.home.arpa/", "https://localhost.localdomain/", "https://db.corp/",
    "https://nas.lan/",
    "https://tv.home/", "https://wiki.intranet/", "https://x.private/", "https://metadata/", "https://kubernetes/",
    "https://db/",
    "https://acme/", "https://com/", "https://com./", "https://xn--p1ai/",
    "https://ｌｏｃａｌｈｏｓｔ/", "https://ⓛⓞⓒⓐⓛⓗⓞⓢⓣ/", "https://𝐥𝐨𝐜𝐚𝐥𝐡𝐨𝐬𝐭/", "https://localhoſt/",
    "https://ℓocalhost/",
    "https://LOCALHOſT./", "https://%6c%6f%63%61%6c%68%6f%73%74/", "https://loc%61lhost/", "https://foo。localhost/",
    "https://foo．local/",
    "https://foo.ｉｎｔｅｒｎａｌ/", "https://printer.ⓛocal/", "https://local\u00adhost/", "https://local\u200bhost/",
    "https://\u2060localhost/"
  ],
  "credentials": [
    "https://user@hooks.acme.com/", "https://user:pass@hooks.acme.com/", "https://:pass@hooks.acme.com/",
    "https://@hooks.acme.com/",
    "https://:@hooks.acme.com/", "https://hooks.acme.com@127.0.0.1/", "https://hooks.acme.com:443@evil.com/",
    "https://a@b@hooks.acme.com/",
    "https://user%40hooks.acme.com/", "https://hooks.acme.com%40localhost/", "https://hooks.acme.com%2540localhost/"
  ],
  "fragments": [
    "https://hooks.acme.com/#x", "https://hooks.acme.com/#", "https://hooks.acme.com#@localhost/",
    "https://hooks.acme.com/a?b#c", "https://hooks.acme.com#"
  ],
  "characters that parsers read differently": [
    " https://hooks.acme.com/", "https://hooks.acme.com/ ", "https://hooks.acme.com/a b", "\thttps://hooks.acme.com/",
    "https://hooks.acme.com/\n",
    "ht\ntps://hooks.acme.com/", "https://hooks.acme\t.com/", "https://hooks.acme.com/\r\nx-injected: 1",
    "https://hooks.acme.com/\0",
    "\0https://hooks.acme.com/", "https://hooks.acme.com/\u007f", "https://hooks.acme.com/\u0085",
    "https://hooks.acme.com/\u00a0",
    "https://hooks.acme.com/\u2028", "\ufeffhttps://hooks.acme.com/", "https://hooks.acme.com/\u200d",
    "https://hooks.acme.com/\u202egpj.exe",
    "https:\\\\hooks.acme.com\\", "https:/\\hooks.acme.com/", "https://hooks.acme.com\\@localhost/",
    "https://localhost\\.acme.com/",
    "https://hooks.acme.com/\\..", "https://hooks.acme.com/\ud800", "https://\udc00.acme.com/",
    "https://hooks.acme.com\\#x"
  ],
  "hosts that are no DNS names": [
    "https://.acme.com/", "https://hooks..acme.com/", "https://-hooks.acme.com/", "https://hooks-.acme.com/",
    "https://hooks.acme.com./",
    "https://hooks.acme.com../", "https://./", "https://../", "https://*.acme.com/", "https://hooks!.acme.com/",
    "https://hooks'.acme.com/",
    "https://(hooks).acme.com/", "https://hooks$.acme.com/", "https://hooks,acme.com/", "https://hooks;.acme.com/",
    "https://a|b.acme.com/",
    "https://a^b.acme.com/", "https://a<b.acme.com/", "https://%00.acme.com/", "https://%zz.acme.com/",
    "https://a%20b.acme.com/",
    "https://hooks.acme.c/", "https://hooks.acme.-com/", "https://hooks.acme.c0m/", "https://xn--/",
    `https://${"a".repeat(64)}.acme.com/`, `https://${"a.".repeat(130)}com/`
  ],
  "ports": [
    "https://hooks.acme.com:0/", "https://hooks.acme.com:65536/", "https://hooks.acme.com:-1/",
    "https://hooks.acme.com:99999999999/",
    "https://hooks.acme.com:http/", "https://hooks.acme.com:443:443/", "https://hooks.acme.com:+443/",
    "https://hooks.acme.com:0x1bb/"
  ]
}

const good = [
  "https://hooks.acme.com", "https://hooks.acme.com/", "https://hooks.acme.com/webhooks/card-rewards",
  "HTTPS://Hooks.Acme.COM/Hook",
  "https://hooks.acme.com:443/", "https://hooks.acme.com:8443/a", "https://hooks.acme.com/?a=b&c=d",
  "https://hooks.acme.com/a@b", "https://hooks.acme.com?x=a@b",
  "https://acme.io/", "https://a.co/", "https://a-b.c-d.acme.com/", "https://tenant_1.acme.com/",
  "https://123.acme.com/", "https://0x7f.acme.com/", "https://3com.com/",
  "https://münchen.de/", "https://xn--mnchen-3ya.de/", "https://例え.jp/", "https://президент.рф/",
  "https://hooks.acme.com/%2e%2e/x", "https://hooks.acme.com/ünï",
  "https://localhost.acme.com/", "https://mylocal.com/", "https://internal.acme.com/", "https://notlocalhost.com/",
  "https://hooks.acmelocal.com/", "https://home.acme.com/",
  "https://arpa.acme.com/", `https://${"a".repeat(63)}.acme.com/`, "https://hooks.acme.photography/",
  "https://acme.xn--p1ai/", "https://webhook.site/0f8e",
  "https://receiver.card-rewards.example/hook", "https://hooks.acme.com/a;b,c:d!e$f'g(h)i*j+k=l~m"
]

describe("EndpointUrl", () => {
  const count = Object.values(hostile).flat().length

  it(`the table has at least 150 hostile URLs (${count})`, () => {
    assert.isAtLeast(new Set(Object.values(hostile).flat()).size, 150)
  })

  for (const [kind, urls] of Object.entries(hostile)) {
    it.each(urls)(`refuses ${kind}: %j`, (url) => {
      assert.isString(refuse(url, guarded))
    })
  }

  it.each(good)("accepts %j", (url) => {
    assert.isUndefined(refuse(url, guarded))
  })

  it("says the reason without repeating the URL", () => {
    for (const url of Object.values(hostile).flat()) {
      assert.match(refuse(url, guarded) ?? "", /^(the|port) [a-zA-Z0-9 .:,/-]+$/)
      assert.notMatch(refuse(url, guarded) ?? "", /acme|evil|[?]|127/)
    }
  })

  it.each([
    "http://localhost:3000/hook", "http://127.0.0.1:8080/", "https://[::1]:8443/", "http://receiver/",
    "https://10.0.0.1/", "http://printer.local/",
    "https://hooks.acme.com/"
  ])("a private network allows %j", (url) => {
    assert.isUndefined(refuse(url, open))
  })

  it.each([
    ...(hostile["credentials"] ?? []),
    ...(hostile["fragments"] ?? []),
    ...(hostile["characters that parsers read differently"] ?? []),
    "ftp://localhost/", "http://", "http:localhost", "http://user@localhost/", "file:///etc/passwd"
  ])("refuses %j even with allowPrivateNetwork", (url) => {
    assert.isString(refuse(url, open))
  })
})
