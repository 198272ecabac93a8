const THALWEG = process.env.THALWEG ?? "http://127.0.0.1:8080";

export default {
  // The page and the Thalweg server share an origin, as behind a reverse proxy.
  rewrites: async () => [{ source: "/v1/:path*", destination: `${THALWEG}/v1/:path*` }],
  // Compression would hold messages of streams back. In production, leave it to the reverse proxy.
  compress: false,
};
