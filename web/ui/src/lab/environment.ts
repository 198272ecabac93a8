/** The environment of a measurement: figures have no meaning without it. */

export interface Environment {
  readonly browser: string;
  readonly cores: number;
  readonly server: string;
  readonly isLoopback: boolean;
  /** The protocol of the page's own request: `http/1.1`, `h2`. */
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

/** Returns whether the page came over HTTP/1.1, where a browser opens at most six connections to a server. */
export function isHttp1(): boolean {
  return hop() !== "h2" && hop() !== "h3";
}

function hop(): string {
  const [page] = performance.getEntriesByType("navigation") as PerformanceNavigationTiming[];
  return page?.nextHopProtocol || "http/1.1";
}

/** Returns the browser's name and version: `Chrome 140 on Linux`. Pure. */
export function browser({ userAgentData }: Brands, userAgent: string): string {
  const known = userAgentData?.brands.filter(({ brand }) => !/not.?a.?brand/i.test(brand));
  const one = known?.find(({ brand }) => brand !== "Chromium") ?? known?.[0];
  if (userAgentData && one) return `${one.brand} ${one.version} on ${userAgentData.platform}`;
  const [, name, version] = /(Firefox|Edg|HeadlessChrome|Chrome|Version)\/(\d+)/.exec(userAgent) ?? [];
  const [, platform] = /\((?:X11; )?([^;)]+)/.exec(userAgent) ?? [];
  return name ? `${name === "Version" ? "Safari" : name} ${version} on ${platform}` : userAgent;
}
