import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.util.zip.GZIPInputStream;

/** Prints the lines of an event stream, which is compressed with gzip. */
class Reader {
  public static void main(String[] arguments) throws Exception {
    var request = HttpRequest.newBuilder(URI.create(arguments[0]))
        .header("Accept", "text/event-stream")
        .header("Accept-Encoding", "gzip")
        .build();
    var response = HttpClient.newHttpClient().send(request, BodyHandlers.ofInputStream());
    var coding = response.headers().firstValue("Content-Encoding").orElse("none");
    if (!coding.equals("gzip")) {
      throw new IllegalStateException("Content-Encoding: " + coding);
    }
    // A BufferedReader would wait for a full buffer.
    var inflated = new GZIPInputStream(response.body());
    var bytes = new byte[4096];
    for (int count; (count = inflated.read(bytes)) >= 0; ) {
      System.out.write(bytes, 0, count);
      System.out.flush();
    }
  }
}
