// Shows the contract of this server. Everything that would need another host is switched off; the page's
// Content-Security-Policy forbids it, too.
Scalar.createApiReference("#reference", {
  url: "v1/openapi.json",
  agent: { disabled: true },
  mcp: { disabled: true },
  telemetry: false,
  withDefaultFonts: false,
  showDeveloperTools: "never",
  hideClientButton: true,
  hideTestRequestButton: true,
  persistAuth: false,
  // The only commands are those of the contract (x-codeSamples).
  hiddenClients: true,
  documentDownloadType: "direct",
  // Each operation shows the schemas of its bodies.
  hideModels: true,
  setPageTitle: ({ title }) => `${title} · Parley API reference`,
});
