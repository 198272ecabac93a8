/** Where something was measured: a figure without it means little. */

export interface Environment {
  readonly browser: string;
  readonly cores: number;
  /** Of the server, as the page sees it. */
  readonly server: string;
  readonly isLoopback: boolean;
  /** How the page itself came: `http/1.1`, `h2`. */
  readonly protocol: string;
  readonly isSecure: boolean;
}

interface Brands {
  readonly userAgentData?: { brands: { brand: string; version: string }[]; platform: string };
}

export function environment(): Environment {
  const { hostname, origin, protocol } = location;
  return {
    browser: browser(navigator as Brands, navigator.userAgent),
    cores: navigator.hardwareConcurrency,
    server: origin,
    isLoopback: /^(localhost|127\.\d+\.\d+\.\d+|\[::1\]|.*\.localhost)$/.test(hostname),
    protocol: hop(),
    isSecure: protocol === "https:",
  };
}

/** Whether the browser opens six connections to this server, and no more. */
export function isHttp1(): boolean {
  return hop() !== "h2" && hop() !== "h3";
}

function hop(): string {
  const [page] = performance.getEntriesByType("navigation") as PerformanceNavigationTiming[];
  return page?.nextHopProtocol || "http/1.1";
}

/** `Chrome 140 on Linux`, as far as a browser says so. Pure. */
export function browser({ userAgentData }: Brands, userAgent: string): string {
  const known = userAgentData?.brands.filter(({ brand }) => !/not.?a.?brand/i.test(brand));
  const one = known?.find(({ brand }) => brand !== "Chromium") ?? known?.[0];
  if (userAgentData && one) return `${one.brand} ${one.version} on ${userAgentData.platform}`;
  const [, name, version] = /(Firefox|Edg|HeadlessChrome|Chrome|Version)\/(\d+)/.exec(userAgent) ?? [];
  const [, platform] = /\((?:X11; )?([^;)]+)/.exec(userAgent) ?? [];
  return name ? `${name === "Version" ? "Safari" : name} ${version} on ${platform}` : userAgent;
}
